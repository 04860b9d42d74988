"""What can be exported, and the columns of each kind as a table."""

KINDS = ("policies", "exemplars", "conversations", "judgements")
COLUMNS: dict[str, tuple[str, ...]] = {
    "policies": ("id", "name", "text", "kind", "mode", "fit_set", "status", "text_revision", "version", "release"),
    "exemplars": (
        "artifact", "polarity", "text", "source", "status", "conversation", "user_turn", "mining_rule", "label_horizon",
        "decided_at", "exemplar", "version", "release",
    ),
    "conversations": (
        "conversation", "scenario", "customer", "config", "channel", "started_at", "message", "user_turn", "role",
        "content", "at", "tool_calls", "call_id", "requestor", "visible_to_agent", "prefix_digest", "metadata", "release",
    ),
    "judgements": (
        "conversation", "user_turn", "artifact", "score", "judge", "kind", "rubric", "pass_mark", "prompt_version",
        "repeat", "chosen", "reason", "text_revision", "current_text", "prefix_digest", "digest_given", "visible_upto",
        "by", "at", "release",
    ),
}  # fmt: skip
