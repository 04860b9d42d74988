"""The database's tables, one module per family. Fields, constraints and named filters only: every write passes a service."""

from console.models.account import ApiToken, IdempotencyRecord, Membership, Role, SignInTry, User
from console.models.artifact import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    Dependency,
    DependencyKind,
    FitSet,
    Kind,
    Mode,
    Status,
)
from console.models.audit import AuditEvent, Heartbeat
from console.models.conversation import Conversation, ConversationWords, Message, QueryState, StateView, Vector
from console.models.decision import Decision, Discovery, Origin
from console.models.desk import Mention, Note, SavedView, ViewPage
from console.models.evaluation import Evaluation
from console.models.exemplar import Exemplar, ExemplarStatus, Pin, Polarity, Source, ViewKind
from console.models.inventory import (
    Centre,
    Change,
    ClassWeight,
    GoLive,
    Inventory,
    OperatingPoint,
    Release,
    ReleaseActivation,
)
from console.models.judgement import Judge, JudgeKind, Judgement, Rubric
from console.models.review import (
    QueueKind,
    QueueOrder,
    Reservation,
    ReviewAnswer,
    ReviewDecision,
    ReviewFlag,
    ReviewItem,
    ReviewQueue,
    ReviewWord,
)
from console.models.run import (
    Attempt,
    Guideline,
    ItemState,
    ModelProvider,
    ModelRole,
    ModelSetting,
    Overlap,
    Run,
    RunItem,
    RunKind,
    RunState,
    Schedule,
    ScheduledStart,
    Spend,
    StartOutcome,
)
from console.models.upload import Upload, UploadPart
from console.models.version import ClassifierVersion

__all__ = [
    "ApiToken", "Artifact", "ArtifactSetting", "ArtifactText", "Attempt", "AuditEvent", "Centre", "Change",
    "ClassWeight", "ClassifierVersion", "Conversation", "ConversationWords", "Decision", "Dependency", "DependencyKind", "Discovery",
    "Evaluation", "Exemplar", "ExemplarStatus", "FitSet", "GoLive", "Guideline", "Heartbeat", "IdempotencyRecord", "Inventory",
    "ItemState", "Judge", "JudgeKind", "Judgement", "Kind", "Membership", "Mention", "Message", "Mode", "ModelProvider",
    "ModelRole", "ModelSetting", "Note", "OperatingPoint", "Origin", "Overlap", "Pin", "Polarity", "QueryState", "QueueKind",
    "QueueOrder", "Release", "ReleaseActivation", "Reservation", "ReviewAnswer", "ReviewDecision", "ReviewFlag",
    "ReviewItem", "ReviewQueue", "ReviewWord", "Role", "Rubric", "Run", "RunItem", "RunKind", "RunState", "SavedView", "Schedule",
    "ScheduledStart", "SignInTry", "Source", "Spend", "StartOutcome", "StateView", "Status", "Upload", "UploadPart", "User",
    "Vector", "ViewKind", "ViewPage",
]  # fmt: skip
