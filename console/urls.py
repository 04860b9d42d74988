"""Every URL of the console, by name. Pages of one inventory live under ``/i/<inv>/``; the API has its own router."""

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path

from console.api import errors as api_errors
from console.api.app import api
from console.views import (
    account,
    agreement,
    audit,
    candidates,
    candidates_strip,
    changes,
    conversations,
    conversations_bulk,
    costs,
    data,
    data_export,
    errors,
    evaluation,
    evidence,
    frame,
    health,
    home,
    invitation,
    judge_versions,
    labels,
    migration,
    mine,
    model_settings,
    neighbours,
    notes,
    playground,
    policies,
    policies_bulk,
    prefix,
    profile,
    releases,
    reveal,
    review,
    run_plan,
    runs,
    saved_views,
    schedules,
    settings_general,
    settings_members,
    settings_redaction,
    settings_retention,
    settings_tokens,
    settings_webhooks,
    similar,
    start,
    why,
    workbench,
    workbench_beside,
    workbench_changes,
    workbench_metrics,
    workbench_versions,
)

# One inventory's pages. Views are called as view(request, inventory, …): permissions.require resolves ``inv``.
inventory: list[URLPattern | URLResolver] = [
    # -- home, policies (list, new, edit), releases
    path("", home.home, name="home"),
    path("policies/", policies.policies, name="policies"),
    path("policies-bulk/", policies_bulk.policies_bulk, name="policies-bulk"),
    path("new-policy/", policies.policy_new, name="policy-new"),
    path("policies/<slug:key>/archive/", policies.policy_archive, name="policy-archive"),
    path("policies/<slug:key>/edit/", policies.policy_edit, name="policy-edit"),
    path("releases/", releases.releases, name="releases"),
    path("releases/<int:a>...<int:b>/", releases.release_diff, name="release-diff"),
    path("releases/<int:number>/go-live/", releases.go_live, name="release-go-live"),
    path("releases/<int:number>/rollback/", releases.rollback, name="release-rollback"),
    # -- workbench
    path("policies/<slug:key>/", workbench.shown, name="policy"),
    path("policies/<slug:key>/map/", workbench.map_page, name="policy-map"),
    path("policies/<slug:key>/map/points.json", workbench.map_points, name="policy-map-points"),
    path("policies/<slug:key>/map/beside.json", workbench_beside.beside_figures, name="policy-beside-figures"),
    path("policies/<slug:key>/exemplars/", workbench.exemplars, name="policy-exemplars"),
    path("policies/<slug:key>/exemplars/preview/", workbench_changes.preview, name="policy-preview"),
    path("policies/<slug:key>/exemplars/apply/", workbench_changes.apply, name="policy-apply"),
    path("policies/<slug:key>/exemplars/source/", workbench_changes.fit_set, name="policy-fit-set"),
    path("policies/<slug:key>/metrics/", workbench.metrics, name="policy-metrics"),
    path("policies/<slug:key>/metrics/figures.json", workbench_metrics.metrics_figures, name="policy-metrics-figures"),
    path("policies/<slug:key>/versions/", workbench.version_list, name="policy-versions"),
    path("policies/<slug:key>/history/", workbench.history, name="policy-history"),
    path("policies/<slug:key>/versions/<int:a>...<int:b>/", workbench_versions.diff, name="policy-diff"),
    path("policies/<slug:key>/versions/<int:number>/rollback/", workbench_versions.rollback, name="policy-rollback"),
    path("policies/<slug:key>/versions/<int:number>/reproduce/", workbench_versions.reproduce, name="policy-reproduce"),
    path("changes/<slug:change>/undo/", changes.undo, name="undo"),
    # -- candidates
    path("candidates/", candidates.candidate_list, name="candidates"),
    path("candidates/decide/", candidates.decide, name="candidates-decide"),
    path("candidates/preview/", candidates_strip.preview, name="candidates-preview"),
    path("candidates/apply/", candidates_strip.apply, name="candidates-apply"),
    # -- review
    path("review/", review.review, name="review"),
    path("review/new/", review.review_new, name="review-new"),
    path("review/mine/", review.review_mine, name="review-mine"),
    path("review/answers/<slug:answer>/undo/", review.review_undo, name="review-undo"),
    path("review/<slug:queue>/", review.review_queue, name="review-queue"),
    path("review/<slug:queue>/start/", review.review_start, name="review-start"),
    path("review/<slug:queue>/items/<slug:item>/", review.review_item, name="review-item"),
    path("review/<slug:queue>/items/<slug:item>/ahead/", review.review_ahead, name="review-ahead"),
    path("review/<slug:queue>/items/<slug:item>/put-back/", review.review_put_back, name="review-put-back"),
    # -- agreement
    path("agreement/", agreement.agreement, name="agreement"),
    path("agreement/figures.json", agreement.agreement_figures, name="agreement-figures"),
    path("agreement/review/", agreement.agreement_review, name="agreement-review"),
    path("agreement/decide/", agreement.decide, name="agreement-decide"),
    # -- neighbours
    path("neighbours/", neighbours.neighbours, name="neighbours"),
    path("neighbours/figures.json", neighbours.neighbours_figures, name="neighbours-figures"),
    path("neighbours/<slug:a>...<slug:b>/", neighbours.neighbours_pair, name="neighbours-pair"),
    # -- evaluation
    path("evaluation/", evaluation.evaluations, name="evaluation"),
    path("evaluation/<slug:run>/", evaluation.evaluation, name="evaluation-one"),
    path("evaluation/<slug:run>/figures.json", evaluation.evaluation_figures, name="evaluation-figures"),
    path("evaluation/<slug:a>...<slug:b>/", evaluation.compare, name="evaluation-compare"),
    path("evaluation/<slug:a>...<slug:b>/figures.json", evaluation.compare_figures, name="evaluation-compare-figures"),
    # -- evidence
    path("evidence/", evidence.evidence_list, name="evidence"),
    path("evidence/<slug:evidence_id>/", evidence.evidence_page, name="evidence-one"),
    path("evidence/<slug:evidence_id>/figures.json", evidence.evidence_figures, name="evidence-figures"),
    path("evidence/<slug:evidence_id>/bundle.zip", evidence.evidence_file, name="evidence-file"),
    # -- conversations, why, playground
    path("conversations/", conversations.conversations, name="conversations"),
    path("conversations-bulk/", conversations_bulk.conversations_bulk, name="conversations-bulk"),
    path("conversations/<slug:conversation>/", conversations.conversation, name="conversation"),
    path("conversations/<slug:conversation>/turns/<int:user_turn>/why/<slug:key>/", why.why_page, name="why"),
    path("conversations/<slug:conversation>/turns/<int:user_turn>/prefix/", prefix.prefix_page, name="prefix"),
    path("conversations/<slug:conversation>/turns/<int:user_turn>/label/<slug:key>/", labels.label, name="label"),
    path("similar/", similar.similar_page, name="similar"),
    path("playground/", playground.playground, name="playground"),
    # -- runs, schedules, costs, models
    path("runs/", runs.run_list, name="runs"),
    path("runs/new/", runs.run_new, name="run-new"),
    path("runs/judges/", judge_versions.judge_versions_page, name="run-judges"),
    path("runs/plan/", run_plan.run_plan, name="run-plan"),
    path("runs/<slug:run>/", runs.run_page, name="run"),
    path("runs/<slug:run>/items/", runs.run_items, name="run-items"),
    path("runs/<slug:run>/do/", runs.run_act, name="run-act"),
    path("schedules/", schedules.schedule_list, name="schedules"),
    path("schedules/new/", schedules.schedule_new, name="schedule-new"),
    path("schedules/loop/", schedules.schedule_loop, name="schedule-loop"),
    path("schedules/<slug:schedule>/", schedules.schedule_page, name="schedule"),
    path("schedules/<slug:schedule>/do/", schedules.schedule_act, name="schedule-act"),
    path("runs/<slug:run>/rejected.<slug:form>", data.data_rejected, name="run-rejected"),
    path("costs/", costs.costs_page, name="costs"),
    path("costs/figures.json", costs.costs_figures, name="costs-figures"),
    path("costs/ledger.csv", costs.costs_file, name="costs-file"),
    # -- data: import, export, freeze
    path("data/", data.data, name="data"),
    path("data/uploads/<slug:upload>/", data.data_upload, name="data-upload"),
    path("data/export/", data_export.data_export, name="data-export"),
    path("data/export/<slug:kind>.<slug:form>", data_export.data_export_file, name="data-export-file"),
    path("data/freeze/", data_export.data_freeze, name="data-freeze"),
    path("data/freeze/release.zip", data_export.data_freeze_file, name="data-freeze-file"),
    # -- audit
    path("audit/", audit.audit_page, name="audit"),
    path("audit/rows.<slug:form>", audit.audit_file, name="audit-file"),
    # -- what one has done oneself
    path("mine/", mine.mine, name="mine"),
    path("mine/undo/", mine.mine_undo, name="mine-undo"),
    # -- notes and flags
    path("notes/", notes.note_list, name="notes"),
    path("notes/write/", notes.note_write, name="note-write"),
    path("notes/on/", notes.note_on, name="note-on"),
    path("notes/<slug:note>/", notes.note_open, name="note-open"),
    path("notes/<slug:note>/close/", notes.note_close, name="note-close"),
    # -- saved views
    path("views/", saved_views.view_list, name="saved-views"),
    path("views/save/", saved_views.view_save, name="saved-view-save"),
    path("views/<slug:view>/do/", saved_views.view_act, name="saved-view-act"),
    # -- settings
    path("settings/migration/", migration.migrations, name="settings-migrations"),
    path("settings/migration/<slug:migration>/", migration.migration, name="settings-migration"),
    path("settings/migration/<slug:migration>/do/", migration.migration_act, name="settings-migration-do"),
    path("settings/general/", settings_general.general, name="settings-general"),
    path("settings/members/", settings_members.members, name="settings-members"),
    path("settings/tokens/", settings_tokens.tokens, name="settings-tokens"),
    path("settings/webhooks/", settings_webhooks.webhooks, name="settings-webhooks"),
    path("settings/webhooks/<slug:webhook>/", settings_webhooks.webhook, name="settings-webhook"),
    path("settings/webhooks/<slug:webhook>/do/", settings_webhooks.webhook_act, name="settings-webhook-do"),
    path("settings/retention/", settings_retention.retention, name="settings-retention"),
    path("settings/redaction/", settings_redaction.redaction, name="settings-redaction"),
    path("conversations/<slug:conversation>/reveal/", reveal.reveal, name="conversation-reveal"),
    path("conversations/<slug:conversation>/erase/", settings_retention.erase, name="conversation-erase"),
    path("settings/models/", model_settings.models_page, name="settings-models"),
    path("settings/guideline/", model_settings.guideline, name="settings-guideline"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", frame.front, name="front"),
    path("start/", start.start, name="start"),
    path("start/dismiss/", start.dismiss, name="start-dismiss"),
    path("start/loop/", start.loop, name="start-loop"),
    path("start/<slug:step>/", start.go, name="start-go"),
    path("sign-in/", account.sign_in, name="sign-in"),
    path("sign-in/<slug:uid>/<slug:token>/", invitation.invitation, name="invitation"),
    path("sign-out/", account.sign_out, name="sign-out"),
    path("profile/", profile.profile, name="profile"),
    path("profile/theme/", profile.theme, name="theme"),
    path("profile/terms/", profile.terms, name="terms"),
    path("cards/<str:token>/", releases.card, name="card"),
    path("i/<slug:inv>/", include(inventory)),
    # -- health
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    # -- API (console/api)
    path("api/v1/", api.urls),
]


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses before any view, in the words of the side that was called."""
    if request.path_info.startswith("/api/"):
        return api_errors.bad_request(request, exception)
    return errors.bad_request(request, exception)


handler400 = "console.urls.bad_request"
handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.server_error"
