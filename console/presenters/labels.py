"""The one table of words that pages show. A template names a term, never its label.

With "Show technical terms" in the profile the same places show the term itself.
"""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Text = str | Promise


@dataclass(frozen=True)
class Label:
    plain: Text
    technical: Text
    line: Text = ""  # one line of explanation, shown beside the word where there is room and as its title elsewhere

    def text(self, *, technical: bool) -> str:
        return str(self.technical if technical else self.plain)


TERMS: dict[str, Label] = {
    # -- the decision
    "fired": Label(
        _("Selected"), _("Fired"), _("Handed to the agent at this turn; whether it obeyed is another question.")
    ),
    "not_fired": Label(_("Not selected"), _("Not fired"), _("Its match strength stayed at or under the cut-off.")),
    "margin": Label(
        _("Match strength"),
        _("Margin"),
        _("How much this reads like “show” rather than “don't show” examples; 0 = undecided."),
    ),
    "cutoff": Label(
        _("Cut-off"), _("θ + offset"), _("Selected above this line; lower means fewer misses and more extras.")
    ),
    "theta": Label(
        _("Cut-off of all"),
        _("θ"),
        _("The one number all policies share; each version may shift it by its own offset."),
    ),
    "offset": Label(_("Own shift"), _("Offset"), _("How far this version moves the cut-off that all share.")),
    "calibrated": Label(
        _("Cut-off chosen on judged turns"), _("Calibrated"), _("The cut-off was chosen on judged turns.")
    ),
    "uncalibrated": Label(
        _("Cut-off not chosen yet"),
        _("Uncalibrated"),
        _("The cut-off is 0: no judged turns have been used to choose it."),
    ),
    # -- examples
    "signal": Label(_("Show example"), _("Signal"), _("A message that needs the policy.")),
    "anti_signal": Label(_("Don't-show example"), _("Anti-signal"), _("A look-alike that doesn't need the policy.")),
    "signals": Label(_("Show examples"), _("Signals"), _("Messages that need the policy.")),
    "anti_signals": Label(_("Don't-show examples"), _("Anti-signals"), _("Look-alikes that don't need the policy.")),
    "exemplar": Label(_("Example"), _("Exemplar"), _("What the policy learns from.")),
    "exemplars": Label(_("Examples"), _("Exemplars"), _("What the policy learns from.")),
    "candidate": Label(_("Suggested example"), _("Candidate"), _("Waits for your yes or no.")),
    "candidates": Label(_("Suggested examples"), _("Candidates"), _("They wait for your yes or no.")),
    "promoted": Label(_("In use"), _("Promoted"), _("The policy learns from it.")),
    "rejected": Label(_("Not used"), _("Rejected"), _("Never suggested again.")),
    "retired": Label(_("Retired"), _("Retired"), _("Taken out; kept for the record.")),
    "promote": Label(_("Use"), _("Promote"), _("Learn from it.")),
    "reject": Label(_("Don't use"), _("Reject"), _("Never suggest it again.")),
    "restore": Label(_("Suggest again"), _("Restore"), _("Put it back among the suggestions.")),
    "retire": Label(_("Take out"), _("Retire"), _("The policy no longer learns from it.")),
    "pin": Label(_("Must select here"), _("Pin"), _("A must-pass test that also selects near-identical messages.")),
    "unpin": Label(_("No longer must select"), _("Unpin"), _("Drops the must-pass test.")),
    "keep": Label(_("Keep in place"), _("Pin"), _("It stays when suggestions are made again.")),
    "unkeep": Label(_("No longer keep"), _("Unpin"), _("It may be replaced when suggestions are made again.")),
    "move": Label(
        _("Move to the other side"), _("Move side"), _("A show example becomes a don't-show one, or the reverse.")
    ),
    "edit": Label(_("Edit"), _("Edit"), _("Makes a new example and retires the old one.")),
    "add": Label(_("Add"), _("Add exemplar"), _("A new example.")),
    # -- where they come from
    "genre": Label(_("Source of examples"), _("Genre"), _("Written by AI, or from real chats.")),
    "generated": Label(_("Written by AI"), _("Generated"), _("Made from the policy's text alone.")),
    "mined": Label(_("From real chats"), _("Mined"), _("Taken from judged conversations.")),
    "mixed": Label(_("AI and real chats"), _("Mixed"), _("Both kinds of examples.")),
    "written": Label(_("Written by people"), _("Written"), _("Typed or chosen by somebody here.")),
    "imported": Label(_("Imported"), _("Imported"), _("Brought in from a file.")),
    "fit_set": Label(_("Learns from"), _("Fit set"), _("Which source of examples the policy learns from.")),
    "transition_turn": Label(
        _("Where it became relevant"), _("Transition turn"), _("First message with the reviewer's top score.")
    ),
    "prior": Label(_("How often it is needed at all"), _("Prior"), _("Beside the match strength, never a part of it.")),
    "prefix_digest": Label(
        _("Fingerprint of the chat so far"), _("Prefix digest"), _("Another one for every other text up to here.")
    ),
    "label_horizon": Label(
        _("Scores read up to"), _("Label horizon"), _("The last message whose score was read to choose this one.")
    ),
    "hard_negative": Label(_("Look-alike"), _("Hard negative"), _("Sounds right, does not need the policy.")),
    # -- what is compared
    "cumulative": Label(_("Whole chat so far"), _("Cumulative view"), _("The stronger of the two counts.")),
    "user_turn": Label(_("This message"), _("User-turn view"), _("The stronger of the two counts.")),
    # -- outcomes
    "pinned": Label(
        _("Selected: must select here"), _("Fired by pin"), _("Near-identical to a turn that must be selected.")
    ),
    "always": Label(_("Always on"), _("Always on"), _("Never filtered and never switched off.")),
    "unfitted": Label(_("Shown: has no examples yet"), _("Unfitted"), _("A policy without a version is always shown.")),
    "dependency": Label(_("Came along"), _("Dependency"), _("Another selected policy requires or entails it.")),
    "carried_over": Label(_("Still on"), _("Carried over"), _("Kept from an earlier message.")),
    "expired": Label(_("Switched off"), _("Expired"), _("Dropped for lack of a new reason.")),
    "filtered": Label(
        _("Filtered later"), _("Filtered by the second stage"), _("Selected, then dropped by the reviewer.")
    ),
    "off": Label(_("Off"), _("Off"), _("Never selected.")),
    "not_scored": Label(_("Not scored"), _("Not scored"), _("Its text has not been read by the encoder yet.")),
    "auto": Label(_("Automatic"), _("Auto"), _("Selected when a turn matches.")),
    # -- figures
    "recall": Label(_("Caught"), _("Recall"), _("Of 100 turns that needed it, so many got it.")),
    "precision": Label(_("Needed when shown"), _("Precision"), _("Of 100 turns it was shown at, so many needed it.")),
    "firing_share": Label(_("Selected on"), _("Firing share"), _("The share of all turns it is selected at.")),
    "relevant": Label(_("Needed it"), _("Relevant"), _("The AI reviewer scored the turn 4 or 5.")),
    "irrelevant": Label(_("Did not need it"), _("Irrelevant"), _("The AI reviewer scored the turn 1 to 3.")),
    "unjudged": Label(_("Not reviewed"), _("Unjudged"), _("No reviewer has scored this turn.")),
    "missed": Label(_("Missed"), _("False negative"), _("Needed it and did not get it.")),
    "extra": Label(_("Extra"), _("False positive"), _("Got it and did not need it.")),
    "judge": Label(_("AI reviewer"), _("Judge"), _("An opinion, not the truth.")),
    "judgement": Label(_("AI reviewer's score"), _("Judgement"), _("1 to 5; an opinion, not the truth.")),
    "human": Label(_("People"), _("Human labels"), _("What reviewers here answered.")),
    "kappa": Label(_("Agreement beyond chance"), _("κ"), _("0 = as good as chance, 1 = always the same answer.")),
    "weight": Label(_("Pull"), _("Weight α"), _("How strongly this example pulls the decision.")),
    "attribution": Label(
        _("What made it so"), _("Attribution"), _("The match strength, split exactly over the examples.")
    ),
    "cosine": Label(_("Similarity"), _("Cosine"), _("1 = the same meaning to the encoder, 0 = nothing in common.")),
    "encoder": Label(_("Text reader"), _("Encoder"), _("The model that turns text into numbers.")),
    # -- changing
    "refit": Label(_("Update"), _("Refit"), _("The policy learns again from its examples.")),
    "flips": Label(_("Turns that change"), _("Flips"), _("Selected before and not after, or the reverse.")),
    "impact": Label(_("What will change"), _("Impact"), _("Worked out before anything is written.")),
    "version": Label(
        _("Version"), _("Classifier version"), _("What the policy learnt, numbered; never changed afterwards.")
    ),
    "rollback": Label(_("Go back to"), _("Rollback"), _("A new version with the old content.")),
    "reproduce": Label(_("Reproduce"), _("Reproduce"), _("Learn again from the stored examples and compare.")),
    "release": Label(_("Release"), _("Release"), _("One numbered state of the whole inventory.")),
    "live": Label(_("Live"), _("Live"), _("What agents get.")),
    "draft": Label(_("Draft"), _("Draft"), _("The newest state, with every change.")),
    "mode": Label(_("Mode"), _("Mode"), _("Automatic, always on, or off.")),
    "query_state": Label(_("Turn"), _("Query state"), _("A conversation up to one customer message.")),
    "user_turns": Label(_("Customer messages"), _("User turns"), _("What the customer wrote, in order.")),
    "name": Label(_("Name"), _("Name"), _("How people call it.")),
    "text": Label(_("Text"), _("Text"), _("What the agent is given, word for word.")),
    "status": Label(_("Status"), _("Status"), _("Active, or archived: kept, and never selected.")),
    "active": Label(_("Active"), _("Active"), _("Selected, shown and fitted.")),
    "archived": Label(_("Archived"), _("Archived"), _("Kept, and never selected.")),
    "absent": Label(_("Not there"), _("Absent"), _("It was made later.")),
    "requires": Label(_("Needs beside it"), _("Requires"), _("Policies that come along when it is selected.")),
    "entails": Label(_("Brings along"), _("Entails"), _("Policies that come along when it is selected.")),
    "pooling": Label(_("What of the chat counts"), _("Pooling"), _("How messages and chat make one match strength.")),
    "expiry": Label(_("Switched off"), _("Expiry"), _("When a policy without a new reason is dropped.")),
    "target_recall": Label(
        _("Share to catch"), _("Target recall"), _("Of 100 turns that need it, so many shall get it.")
    ),
    "centre": Label(
        _("Centre"), _("Centre"), _("What is common to all texts, taken off each; fixed by the first fit.")
    ),
    "policy": Label(_("Policy"), _("Artifact"), _("The text the agent is given.")),
    "policies": Label(_("Policies"), _("Artifacts"), _("The texts the agent may be given.")),
}

ROLES: dict[str, Label] = {
    "viewer": Label(_("Viewer"), _("viewer"), _("Reads every page.")),
    "reviewer": Label(_("Reviewer"), _("reviewer"), _("Also labels turns and exports evidence.")),
    "author": Label(_("Author"), _("author"), _("Also changes policies and their examples.")),
    "publisher": Label(_("Publisher"), _("publisher"), _("Also moves the cut-off, goes live and rolls back.")),
    "admin": Label(_("Admin"), _("admin"), _("Also manages people, tokens and settings.")),
}

# How a change reads in a list: what was done; the object's own name follows it. "artifact.edit" comes before "edit".
ACTIONS: dict[str, Text | Label] = {
    "add": Label(_("Added an example"), _("Added an exemplar")),
    "promote": Label(_("Took an example into use"), _("Promoted an exemplar")),
    "reject": Label(_("Decided against an example"), _("Rejected an exemplar")),
    "restore": Label(_("Put an example back among the suggestions"), _("Restored an exemplar")),
    "retire": Label(_("Took an example out"), _("Retired an exemplar")),
    "keep": _("Kept an example in place"),
    "unkeep": _("No longer keeps an example in place"),
    "move": Label(_("Moved an example to the other side"), _("Moved an exemplar to the other side")),
    "pin": Label(_("Must select at a turn"), _("Pinned a turn")),
    "unpin": Label(_("No longer must select at a turn"), _("Unpinned a turn")),
    "edit": _("Edited"),
    "exemplar.edit": Label(_("Edited an example"), _("Edited an exemplar")),
    "inventory.create": _("Made the inventory"),
    "artifact.restore": _("Brought back from the archive"),
    "artifact.name": _("Renamed"),
    "artifact.text": _("Changed the text"),
    "artifact.mode": _("Changed the mode"),
    "artifact.kind": _("Changed the kind"),
    "create": _("Created"),
    "archive": _("Archived"),
    "refit": Label(_("Updated"), _("Refitted")),
    "fit": Label(_("Updated"), _("Refitted")),
    "prepare": _("Got ready for the first fit"),
    "curate": Label(_("Changed examples"), _("Changed exemplars")),
    "dependencies": Label(_("Changed what comes along"), _("Changed dependencies")),
    "rollback_all": Label(_("Took everything back"), _("Rolled everything back")),
    "rollback": Label(_("Went back to an earlier version"), _("Rolled back to an earlier version")),
    "undo": _("Undid a change"),
    "revert": _("Reverted a change"),
    "fit_set": Label(_("Changed the source of examples"), _("Changed the fit set")),
    "calibrate": Label(_("Chose the cut-off"), _("Calibrated θ")),
    "operating_point": Label(_("Moved the cut-off"), _("Changed the operating point")),
    "operating_point.edit": Label(_("Changed how it is decided"), _("Changed the operating point")),
    "operating_point.theta": Label(_("Moved the cut-off"), _("Moved θ")),
    "operating_point.pooling": Label(_("Changed what of the chat counts"), _("Changed the pooling")),
    "operating_point.expiry": Label(_("Changed when policies are switched off"), _("Changed the expiry")),
    "operating_point.target_recall": Label(_("Changed the share to catch"), _("Changed the target recall")),
    "operating_point.restore": Label(_("Took back how it is decided"), _("Restored the operating point")),
    "update": _("Changed"),
    "import": _("Imported"),
    "import_begun": _("Began an import"),
    # -- what makes no release, as the audit has it: "membership.set" is "set" of "membership"
    "user.create": _("Made an account"),
    "user.password": _("Set a password"),
    "user.profile": _("Changed their profile"),
    "membership.set": _("Changed a role"),
    "token.mint": _("Made a token"),
    "token.revoke": _("Revoked a token"),
    "webhook.create": _("Made a webhook"),
    "webhook.edit": _("Chose other events for a webhook"),
    "webhook.pause": _("Paused a webhook"),
    "webhook.resume": _("Let a webhook go on"),
    "webhook.rotate": _("Gave a webhook a new secret"),
    "webhook.delete": _("Deleted a webhook"),
    "webhook.test": _("Sent a webhook a test"),
    "webhook.send_again": _("Sent a delivery again"),
    "inventory.edit": _("Changed settings"),
    "model.set": _("Changed a model"),
    "model.try": _("Tried a model"),
    "guideline.new": _("Wrote a guideline"),
    "release.go_live": _("Let a release go live"),
    "release.share": _("Gave a change card out by link"),
    "run.create": _("Started a run"),
    "run.cancel": _("Cancelled a run"),
    "run.pause": _("Paused a run"),
    "run.resume": _("Resumed a run"),
    "run.retry": _("Retried what failed"),
    "run.cap": _("Raised a run's cap"),
    "schedule.save": _("Saved a schedule"),
    "schedule.on": _("Switched a schedule on"),
    "schedule.off": _("Switched a schedule off"),
    "schedule.delete": _("Deleted a schedule"),
    "upload.create": _("Uploaded a file"),
    "upload.erase": _("Erased an uploaded file"),
    "data.export": _("Took data out"),
    "audit.export": _("Took the audit out"),
    "conversation.erase": _("Erased a conversation"),
    "conversation.reveal": _("Revealed what is hidden"),
    "conversation.hide": _("Hid it again"),
    "inventory.redaction": _("Changed what is hidden"),
    "note.write": _("Wrote a note"),
    "note.take_back": _("Took a note back"),
    "note.flag": _("Flagged"),
    "note.close": _("Saw to a flag"),
    "review.create": _("Made a queue"),
    "review.flag": _("Flagged an item of a queue"),
    "review.put_back": _("Put an item back into its queue"),
    "review.decide": _("Decided a difference"),
    "judgement.label": Label(_("Scored a turn"), _("Labelled a turn")),
    "judgement.withdraw": Label(_("Took a score back"), _("Withdrew a label")),
    "sample.begin": _("Began to load the sample"),
    "sample.load": _("Loaded the sample"),
    "sample.remove": _("Removed the sample"),
    "artifacts.import": Label(_("Imported policies"), _("Imported artifacts")),
    "artifacts.import_begun": Label(_("Began to import policies"), _("Began to import artifacts")),
    "exemplars.import": Label(_("Imported examples"), _("Imported exemplars")),
    "exemplars.import_begun": Label(_("Began to import examples"), _("Began to import exemplars")),
    "conversations.import": _("Imported conversations"),
    "conversations.import_begun": _("Began to import conversations"),
    "judgements.import": Label(_("Imported scores"), _("Imported judgements")),
    "judgements.import_begun": Label(_("Began to import scores"), _("Began to import judgements")),
}

# What a run does, by its kind; the line says what comes of it.
RUN_KINDS: dict[str, Label] = {
    "generate": Label(
        _("Write examples"),
        _("Generate"),
        _("A model writes messages that need a policy, and look-alikes, from its text."),
    ),
    "judge": Label(
        _("Review turns"),
        _("Judge"),
        _("The AI reviewer scores turns from 1 to 5 for every policy, from the chat so far."),
    ),
    "mine": Label(
        _("Find examples in chats"),
        _("Mine"),
        _("Suggests reviewed messages as examples: where a policy became relevant, and its look-alikes."),
    ),
    "import": Label(_("Import"), _("Import"), _("Reads a file into this inventory.")),
    "score": Label(
        _("Work out selections"),
        _("Score"),
        _("What would have been selected at every logged turn under one release, kept for the record."),
    ),
    "evaluate": Label(
        _("Measure"), _("Evaluate"), _("The table of methods on the reviewed turns: caught, needed when shown, kept.")
    ),
    "calibrate": Label(
        _("Choose the cut-off"), _("Calibrate"), _("The highest cut-off that still catches the share to catch.")
    ),
}

RUN_STATES: dict[str, Label] = {
    "planning": Label(_("Planning"), _("Planning"), _("Its items are being written down.")),
    "queued": Label(_("Queued"), _("Queued"), _("Accepted; a worker starts it.")),
    "running": Label(_("Running"), _("Running"), _("Items are being done.")),
    "waiting": Label(_("Waiting for quota"), _("Waiting for quota"), _("It goes on by itself at the time named.")),
    "paused": Label(_("Paused"), _("Paused"), _("Somebody stopped it; it goes on when resumed.")),
    "capped": Label(_("Paused by its cap"), _("Paused by its cap"), _("It goes on when the cap is raised.")),
    "stalled": Label(
        _("Stalled"), _("Stalled"), _("A worker was lost. Its items were given back; the next worker takes them.")
    ),
    "cancelling": Label(
        _("Cancel requested"), _("Cancel requested"), _("What is in flight ends first, then it is cancelled.")
    ),
    "cancelled": Label(_("Cancelled"), _("Cancelled"), _("What had ended stays; the rest was not done.")),
    "complete": Label(_("Complete"), _("Complete"), _("Every item was done.")),
    "gaps": Label(_("Complete with gaps"), _("Complete with gaps"), _("Some items failed; the others were done.")),
    "failed": Label(_("Failed"), _("Failed"), _("Nothing was done, or it was given up.")),
}

# Why an item failed, or was tried again.
RUN_ERRORS: dict[str, Text] = {
    "rate_limited": _("429: asked to wait"),
    "server_error": _("Server error"),
    "timeout": _("No answer in time"),
    "connection": _("Connection lost"),
    "refused": _("Refused by the server"),
    "no_key": _("No key on this server"),
    "bad_answer": _("No chat answer"),
    "unknown_input": _("Nothing recorded for it"),
    "empty": _("Empty reply"),
    "cut": _("Reply cut by the output limit"),
    "bad_json": _("Bad JSON"),
    "wrong_shape": _("Wrong shape"),
    "rewrites_missing": _("Rewrites are missing"),
    "prompt_changed": _("The prompt has changed"),
    "wrong_ids": _("Wrong ids"),
    "out_of_range": _("Out of range"),
    "lost": _("Worker lost"),
    "unavailable": _("A needed part was away"),
    "not_embedded": _("No vectors yet"),
    "no_centre": _("No fitted policy"),
    "gone": _("Erased meanwhile"),
    "unreadable": _("File cannot be read"),
    "error": _("Error"),
}

# What a run is asked for, by the names that its scope and params have.
RUN_OPTIONS: dict[str, Text] = {
    "artifacts": _("Policies"),
    "conversations": _("Conversations"),
    "scenarios": _("Scenarios"),
    "channel": _("Channel"),
    "since": _("Chats since"),
    "until": _("Chats until"),
    "sample": _("Random part"),
    "but_not": _("But not"),
    "by_margin": _("Chats with the highest match strength"),
    "unjudged_only": _("Only what is not reviewed yet"),
    "protocol": _("Table"),
    "labels": _("What counts as needed"),
    "encoders": _("Text readers"),
    "plan": _("Evidence plan"),
    "target": _("Share to catch"),
    "release": _("Release"),
    "per_call": _("Policies per call"),
    "repeat_sample": _("Share reviewed twice"),
    "seed": _("Seed of the random choices"),
    "guideline": _("Guideline"),
    "judge": _("AI reviewer"),
    "prompt_version": _("Prompt version"),
    "rule": _("A chat is read"),
    "recipe": _("Messages taken"),
    "mode": _("What to look for"),
    "negatives_per_signal": _("Don't-show examples per show example"),
    "max_irrelevant": _("Highest score of a don't-show example"),
    "max_candidates": _("Suggestions per policy, at most"),
    "auto_promote": _("Taken into use by itself, per policy"),
    "quiet_hours": _("Hours until a chat counts as ended"),
    "m": _("Examples per side"),
    "generate.mode": _("How many"),
    "rounds": _("Rounds at most"),
    "neighbours": _("Neighbours named to the model"),
    "batch": _("As a batch, at a lower price"),
    "again": _("Also policies whose text has not changed"),
    "what": _("What it holds"),
    "file": _("File"),
    "upload": _("Upload"),
    "sha256": _("Its digest"),
    "encoding": _("Encoding"),
    "format": _("Format"),
    "source": _("Where the examples are from"),
    "rubric": _("How a new reviewer scored"),
}

# What stands in them, where it is a word of ours.
RUN_VALUES: dict[str, Text] = {
    "as-judged": _("as it was scored"),
    "running-max": _("the highest score so far in the chat"),
    "mine.plain": _("show and don't-show examples from reviewed chats"),
    "generate.plain": _("so many, in one call per side"),
    "covered": _("round by round, until new ones are already known"),
    "adversarial": _("what is selected most wrongly now"),
    "paper": _("where a policy became relevant, and the nearest look-alikes"),
    "states": _("every reviewed message"),
    "whole_conversation": _("whole, once it has ended"),
    "running": _("message by message, as it goes on"),
}

# The tables of an evaluation, by what they compare.
PROTOCOLS: dict[str, Text] = {
    "overview": _("The versions of a release, as a whole and policy by policy"),
    "operating-point": _("Methods at the same share caught"),
    "mined": _("Examples from real chats against those written by AI"),
    "ablations": _("What each part of the method adds"),
    "pooling-stress": _("What of the chat counts"),
    "decomposition": _("Where the gain comes from"),
    "cost": _("Tokens and time per turn"),
    "ceiling": _("What no examples could reach"),
    "saturation": _("How many examples are enough"),
    "expiry": _("Switching off what has no new reason"),
    "capabilities": _("Skills and tools"),
    "ownership": _("What a policy's own examples do"),
}

# The methods that its tables compare, and the heads of their columns.
METHODS: dict[str, Label] = {
    "cosine-text": Label(_("Similarity to the policy's text"), "cosine-text"),
    "cosine-signals": Label(_("Similarity to the nearest show example"), "cosine-signals"),
    "topk-text": Label(_("The K nearest, by text"), "topk-text"),
    "topk-signals": Label(_("The K nearest, by show example"), "topk-signals"),
    "sq-active": Label(_("Versions in use"), "S&Q, versions in use"),
    "sq-generic-negatives": Label(_("Show examples against those of all other policies"), "S&Q, generic negatives"),
    "family-sq": Label(_("Show and don't-show examples, all policies"), "S&Q, macro"),
    "family-cosine": Label(_("Similarity to the nearest show example, all policies"), "Cosine to signals, macro"),
    "sq-generated": Label(_("Show and don't-show examples, written by AI"), "sq-generated"),
    "sq-mined-paper": Label(_("… from real chats, as in the paper"), "sq-mined-paper"),
    "sq-mined": Label(_("… from real chats, the usual way"), "sq-mined"),
    "sq-mined-balanced": Label(_("… from real chats, balanced"), "sq-mined-balanced"),
    "sq-mined-positives-only": Label(_("… from real chats, show examples only"), "sq-mined-positives-only"),
    "sq-mined-negatives-only": Label(_("… from real chats, don't-show examples only"), "sq-mined-negatives-only"),
    "sq-mixed": Label(_("… by AI and from real chats"), "sq-mixed"),
    "cosine-signals-mined": Label(_("Similarity to the nearest real show example"), "cosine-signals-mined"),
}
EVALUATION_HEADS: dict[str, Text] = {
    "method": _("Method"),
    "world": _("Policies without material"),
    "encoder": _("Text reader"),
    "k": _("K"),
    "precision_at_r90": _("Needed when shown, at 90 % caught"),
    "kept": _("Kept of all"),
    "coverage": _("Policies covered"),
    "auprc": _("Area under the curve"),
    "theta": _("Cut-off"),
    "sd": _("Spread"),
}

# What became of a schedule's due time.
START_OUTCOMES: dict[str, Label] = {
    "started": Label(_("started"), _("started"), _("The run was planned.")),
    "skipped": Label(_("skipped"), _("skipped"), _("The run before it had not ended.")),
    "missed": Label(_("missed"), _("missed"), _("Nobody was there to start it.")),
    "refused": Label(_("refused"), _("refused"), _("The run could not be planned.")),
}

# Which models an inventory's runs call, by what they do.
MODEL_ROLES: dict[str, Label] = {
    "generator": Label(_("Writer of examples"), _("Generator"), _("Writes messages from a policy's text.")),
    "judge": Label(_("AI reviewer"), _("Judge"), _("Scores turns from 1 to 5.")),
}

# Where money went: a run's kind, or one of these.
SPEND_SOURCES: dict[str, Text] = {
    "embed": _("Reading texts"),
    "playground": _("Playground"),
    "trial": _("Trying a model"),
    "rewrite": _("Rewriting requests, for evidence"),
}


def term(name: str, *, technical: bool = False) -> str:
    """The word for ``name`` on a page; an unknown name is a programming error and raises KeyError."""
    return TERMS[name].text(technical=technical)


def line(name: str) -> str:
    return str(TERMS[name].line)


def role(name: str) -> Label:
    return ROLES[name]


def action(name: str, kind: str = "", *, technical: bool = False) -> str:
    """What a change's action says, of an object of ``kind``; unknown ones read as they are stored, with spaces."""
    found = ACTIONS.get(f"{kind}.{name}", ACTIONS.get(name))
    if isinstance(found, Label):
        return found.text(technical=technical)
    return str(found or name.replace("_", " ").replace("-", " ").capitalize())


def run_kind(name: str, *, technical: bool = False) -> str:
    return RUN_KINDS[name].text(technical=technical)


def run_error(code: str) -> str:
    """Unknown codes read as they are stored, with spaces."""
    return str(RUN_ERRORS.get(code, code.replace("_", " ").capitalize()))


def spend_source(name: str, *, technical: bool = False) -> str:
    """What a ledger row's ``source`` is called; an unknown one reads as it is stored."""
    if name in RUN_KINDS:
        return run_kind(name, technical=technical)
    return str(SPEND_SOURCES.get(name, name))


def run_option(name: str, kind: str = "") -> str:
    """What a part of a run's scope or params is called; an unknown one reads as it is stored, with spaces."""
    return str(RUN_OPTIONS.get(f"{kind}.{name}", RUN_OPTIONS.get(name, name.replace("_", " ").capitalize())))


def run_value(value: str, kind: str = "") -> str:
    return str(RUN_VALUES.get(f"{kind}.{value}", RUN_VALUES.get(value, value)))


def protocol(name: str) -> str:
    """What a table of the evaluation compares; one without words of ours by its name."""
    return str(PROTOCOLS.get(name, name))


def method(name: str, *, technical: bool = False) -> str:
    return METHODS[name].text(technical=technical) if name in METHODS else name


def evaluation_head(name: str) -> str:
    return str(EVALUATION_HEADS.get(name, name.replace("_", " ")))


def model_role(name: str, *, technical: bool = False) -> str:
    return MODEL_ROLES[name].text(technical=technical)
