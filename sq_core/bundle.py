"""What an agent loads: one release of an inventory that decides, at every user turn, what the agent must see.

`Bundle.discover` answers for the last user turn, `Bundle.outcomes` for every turn and artifact; both run the same
replay (`sq_core.decision`), so the first is the last row of the second. API, pages and exported files all decide here.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sq_core.artifact import ArtifactTable, Columns
from sq_core.attribution import attribute
from sq_core.conversation import Message, is_user_turn
from sq_core.decision import (
    Artifact,
    Decider,
    Discovery,
    ExemplarTerm,
    Explanation,
    Fired,
    Label,
    Mode,
    OperatingPoint,
    Outcome,
    Reason,
    ordered,
)
from sq_core.embedding import Centre, Encoder, ZeroVector, centre_and_normalise
from sq_core.scoring import Float, Pooling, Vectors, Views, cut_offs, margin, margins
from sq_core.second_stage import TIMEOUT_SECONDS, SecondStage, ask
from sq_core.session import ConversationVectors, Rendering, Session, VectorCache, as_messages, embed_conversation
from sq_core.turn_scorer import TurnScorer

__all__ = [
    "Artifact",
    "Bundle",
    "BundleError",
    "Discovery",
    "EncoderMismatchError",
    "ExemplarTerm",
    "Explanation",
    "Fired",
    "Label",
    "Mode",
    "OperatingPoint",
    "Outcome",
    "Reason",
    "load_bundle",
    "select_all",
]

Messages = Sequence[Message] | Sequence[Mapping[str, Any]]
Source = Messages | ConversationVectors | Sequence[Views]


class BundleError(ValueError):
    """A bundle that cannot be built, read or asked that; the text says what, where and the mend."""


class EncoderMismatchError(BundleError):
    """An encoder other than the one the weights were fitted with: its numbers would mean nothing."""


class Bundle:
    """One release: encoder id, centre, operating point and artifacts. Immutable; safe to share between threads."""

    def __init__(
        self,
        *,
        encoder_id: str,
        centre: Centre,
        operating_point: OperatingPoint,
        artifacts: Iterable[Artifact],
        release: int = 0,
        inventory: str = "",
        rendering: Rendering | None = None,
        metadata: Mapping[str, Any] | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        """Raises `BundleError` for a key that occurs twice or vectors of another dimension than the centre's."""
        self.encoder_id, self.centre, self.operating_point = encoder_id, centre, operating_point
        self.release, self.inventory = release, inventory
        self.rendering, self.metadata, self._encoder = rendering or Rendering(), dict(metadata or {}), encoder
        self.artifacts = artifacts if isinstance(artifacts, ArtifactTable) else self._table(tuple(artifacts))
        self._decider = Decider(self.columns)
        if len(self._decider.place) != len(self.keys):
            raise BundleError("two artifacts have the same key; keys must differ")

    def _table(self, artifacts: tuple[Artifact, ...]) -> ArtifactTable:
        for artifact in artifacts:
            self._check_dimensions(artifact)
        return ArtifactTable.of(artifacts, self.dimension)

    def _check_dimensions(self, artifact: Artifact) -> None:
        vectors = [] if artifact.classifier is None else [("weights", artifact.classifier.weights)]
        vectors += [(f"pin {p.id}", v) for p in artifact.pins for v in (p.cumulative, p.turn) if v is not None]
        vectors += [(f"exemplar {e.id}", e.vector) for e in artifact.exemplars or ()]
        for what, vector in vectors:
            if vector.shape != (self.dimension,):
                raise BundleError(
                    f"artifact {artifact.key}: {what} has shape {vector.shape}, the centre dimension {self.dimension}"
                )

    @property
    def dimension(self) -> int:
        """Length of every vector, d."""
        return self.centre.dimension

    @property
    def keys(self) -> tuple[str, ...]:
        """The artifacts' keys in the order of `artifacts` and `margins`."""
        return self.columns.keys

    @property
    def columns(self) -> Columns:
        """What decides, as arrays: keys, modes, weights, biases, offsets."""
        return self.artifacts.columns

    # ------------------------------------------------------------------------------------------------------- deciding
    def discover(
        self,
        messages: Messages,
        *,
        theta: float | None = None,
        encoder: Encoder | None = None,
        turn_cache: VectorCache | None = None,
        all: bool = False,  # noqa: A002
        on_failure: Literal["all", "raise"] = "all",
        second_stage: SecondStage | None = None,
        second_stage_timeout: float = TIMEOUT_SECONDS,
    ) -> Discovery:
        """The full active set at the last user turn of `messages`, which are all messages from the first on.

        `theta` replaces θ and keeps the offsets. `turn_cache` saves encoding and changes no answer. `all` fills
        `not_fired`. When the encoder fails, `on_failure="all"` selects every artifact that is not off
        (`Discovery.degraded`), never none; ``"raise"`` passes the error on. `second_stage` is asked about what fired by
        its margin and may take some of it away again (`sq_core.second_stage`); a degraded answer does not reach it.
        Raises `MessageError` for messages that cannot be read or are none, and `EncoderMismatchError` for another
        encoder, whatever `on_failure` says.
        """
        point, read = self._point(theta), as_messages(messages)
        started = time.perf_counter()
        vectors: ConversationVectors | None = None
        if any(is_user_turn(message) for message in read):
            try:
                vectors = self._embed(read, self._checked(encoder), turn_cache, every_prefix=point.expiry.on)
            except EncoderMismatchError:
                raise
            except Exception as error:
                # Whatever keeps the encoder from answering, a pre-filter that selects nothing would be wrong.
                if on_failure == "raise":
                    raise
                return select_all(self, f"{type(error).__name__}: {error}")
        embedded = time.perf_counter()
        found = None if vectors is None else self._decider.replay(vectors, point)
        row = 0 if found is None else len(found.margins) - 1
        outcomes = self._decider.outcomes(found, row, everything=all)
        scored, answer = time.perf_counter(), None
        if second_stage is not None:
            pinned = set() if found is None else {column for at, column in found.pins if at == row}
            survivors = self._survivors(outcomes, pinned)
            last = max((place for place, message in enumerate(read) if is_user_turn(message)), default=-1)
            answer = ask(second_stage, read[: last + 1], survivors, timeout=second_stage_timeout)
            if answer.dropped:
                outcomes = self._decider.outcomes(found, row, everything=all, dropped=answer.dropped)
        return Discovery(
            fired=ordered(outcomes),
            expired=tuple(sorted(o.artifact for o in outcomes if o.outcome is Label.EXPIRED)),
            not_fired=tuple(o for o in outcomes if not o.fired) if all else (),
            user_turn=None if vectors is None else len(vectors.turns) - 1,
            second_stage=answer,
            embed_ms=(embedded - started) * 1000,
            score_ms=(scored - embedded) * 1000,
        )

    def _survivors(self, outcomes: Sequence[Outcome], pinned: Collection[int]) -> list[Artifact]:
        """What a second stage may be asked about: what fired by its margin and is not in a pinned column."""
        by_margin = {o.artifact for o in outcomes if o.reason in (Reason.CLASSIFIER, Reason.CARRIED_OVER)}
        by_pin = {self.keys[self.columns.fitted[column]] for column in pinned}
        return [self.artifact(outcome.artifact) for outcome in outcomes if outcome.artifact in by_margin - by_pin]

    async def adiscover(
        self,
        messages: Messages,
        *,
        theta: float | None = None,
        encoder: Encoder | None = None,
        turn_cache: VectorCache | None = None,
        all: bool = False,  # noqa: A002
        on_failure: Literal["all", "raise"] = "all",
        second_stage: SecondStage | None = None,
        second_stage_timeout: float = TIMEOUT_SECONDS,
    ) -> Discovery:
        """`discover` in a thread: the event loop is never blocked."""
        return await asyncio.to_thread(
            self.discover,
            messages,
            theta=theta,
            encoder=encoder,
            turn_cache=turn_cache,
            all=all,
            on_failure=on_failure,
            second_stage=second_stage,
            second_stage_timeout=second_stage_timeout,
        )

    def outcomes(
        self,
        source: Source,
        *,
        turns: Collection[int] | None = None,
        theta: float | None = None,
        encoder: Encoder | None = None,
        turn_cache: VectorCache | None = None,
    ) -> tuple[tuple[Outcome, ...], ...]:
        """Per user turn, the outcome of every artifact in the order of `artifacts`, expiry and dependencies replayed.

        `turns` (default: all of them): of any other turn only what fires or has expired is told, which costs less.
        `source`: all messages, or their vectors: `ConversationVectors`, or the `Views` of the states 0 … T-1. Empty
        when no user has said anything. Errors of the encoder are passed on.
        """
        point = self._point(theta)
        vectors = self._vectors(source, encoder, turn_cache)
        if vectors is None:
            return ()
        found = self._decider.replay(vectors, point)
        return tuple(
            self._decider.outcomes(found, row, everything=turns is None or row in turns)
            for row in range(len(vectors.cumulative))
        )

    def selected(self, vectors: ConversationVectors) -> tuple[Fired, ...]:
        """What fires at the last user turn of a conversation's vectors, in the order of `discover`."""
        found = self._decider.replay(vectors, self.operating_point)
        return ordered(self._decider.outcomes(found, len(found.margins) - 1, everything=False))

    def session(
        self, *, encoder: Encoder | None = None, theta: float | None = None, second_stage: SecondStage | None = None
    ) -> Session:
        """A growing conversation: the same answers as `discover`, embedding only what is new."""
        return Session(self, encoder=encoder, theta=theta, second_stage=second_stage)

    def explain(
        self,
        source: Source,
        artifact: str,
        *,
        turn: int | None = None,
        theta: float | None = None,
        encoder: Encoder | None = None,
        turn_cache: VectorCache | None = None,
    ) -> Explanation:
        """Take the margin of `artifact` at user turn `turn` (default: the last) apart, exactly, term by exemplar.

        The attribution's `bias` carries the age discounts of the views that count, if any. Raises `BundleError` for an
        unknown artifact or turn, one without classifier, and a bundle without exemplars.
        """
        chosen = self.artifact(artifact)
        if chosen.classifier is None:
            raise BundleError(f"artifact {artifact} has no classifier yet; it is selected as unfitted")
        if chosen.exemplars is None:
            raise BundleError(f"artifact {artifact}: no exemplars here; export the bundle with exemplars to explain it")
        point = self._point(theta)
        earlier = turn is not None or point.expiry.on  # else the last prefix is enough, as in `discover`
        vectors = self._vectors(source, encoder, turn_cache, every_prefix=earlier)
        last = -1 if vectors is None else len(vectors.turns) - 1
        at = last if turn is None else turn
        if vectors is None or not vectors.first <= at <= last:
            raise BundleError(f"user turn {turn}: this conversation has {last + 1} user turns, counted from 0")
        found = self._decider.outcomes(self._decider.replay(vectors, point), at - vectors.first)
        outcome = next(o for o in found if o.artifact == artifact)
        views = vectors.views(at)
        taken = margin(chosen.classifier, views, self.operating_point.pooling)
        weights = np.array([term.weight for term in taken.all_values])
        less = math.fsum(term.weight * term.discount for term in taken.views)
        attribution = attribute(
            np.array([e.vector for e in chosen.exemplars]).reshape(len(chosen.exemplars), self.dimension),
            [e.alpha for e in chosen.exemplars],
            chosen.classifier.bias - less,
            weights @ views.vectors.astype(np.float64),
            [e.polarity for e in chosen.exemplars],
            stored=taken.value,
        )
        return Explanation(outcome, taken, attribution, chosen.exemplars)

    def artifact(self, key: str) -> Artifact:
        """The artifact with that key. Raises `BundleError`."""
        try:
            return self.artifacts[self._decider.place[key]]
        except KeyError:
            raise BundleError(f"no artifact {key!r} in release {self.release} of {self.inventory!r}") from None

    # ---------------------------------------------------------------------------------------------------- plain numbers
    def margins(self, views: Views | ArrayLike) -> Float:
        """Margins (N,) of all artifacts in the order of `keys`, NaN where there is no classifier.

        `Views` are pooled as the operating point says; a plain (v, d) array is user turns under the max.
        """
        pooling = self.operating_point.pooling
        if not isinstance(views, Views):
            views, pooling = Views.of_turns(views), Pooling(cumulative=False)
        result = np.full(len(self.keys), np.nan)
        result[self.columns.fitted] = margins(self.columns.weights, self.columns.biases, views, pooling)
        return result

    def turn_scorer(self, theta: float | None = None) -> TurnScorer:
        """The fitted artifacts (those of `columns.fitted`, in that order) at their cut-offs, to score a turn as arrays.

        For callers that need speed and neither reasons, pins nor expiry; the weights are shared, not copied.
        """
        cutoffs = cut_offs(self._point(theta).theta, self.columns.offsets)
        return TurnScorer(self.columns.weights, self.columns.biases, cutoffs)

    def centre_and_normalise(self, vectors: ArrayLike) -> Vectors:
        """Raw encoder vectors (n, d) as centred unit vectors (n, d); errors as in `sq_core.embedding`."""
        return centre_and_normalise(np.asarray(vectors, dtype=np.float32), self.centre)

    # --------------------------------------------------------------------------------------------------------- helpers
    def prompt_block(self, fired: Discovery | Iterable[Fired]) -> str:
        """The fired artifacts' names and whole texts for a prompt, in the order given; empty when nothing fired."""
        entries = fired.fired if isinstance(fired, Discovery) else fired
        blocks = []
        for artifact in (self.artifact(entry.artifact) for entry in entries):
            label = f"{artifact.kind}: {artifact.key}"
            blocks.append(f"--- begin {label} ---\n{artifact.name}\n\n{artifact.text}\n--- end {label} ---")
        return "\n\n".join(blocks)

    def with_encoder(self, encoder: Encoder) -> Bundle:
        """The same bundle with `encoder` as its own. Raises `EncoderMismatchError`."""
        self._checked(encoder)
        return Bundle(
            encoder_id=self.encoder_id,
            centre=self.centre,
            operating_point=self.operating_point,
            artifacts=self.artifacts,
            release=self.release,
            inventory=self.inventory,
            rendering=self.rendering,
            metadata=self.metadata,
            encoder=encoder,
        )

    def save(self, path: str | Path, *, with_exemplars: bool = False) -> None:
        """Write the one file `load_bundle` reads (docs/adr/0005), whole or not at all."""
        from sq_core.bundle_file import write_bundle

        write_bundle(self, Path(path), with_exemplars=with_exemplars)

    def _point(self, theta: float | None) -> OperatingPoint:
        if theta is None:
            return self.operating_point
        if not math.isfinite(theta):
            raise BundleError(f"theta is {theta!r}; expected a finite number")
        return replace(self.operating_point, theta=theta)

    def _checked(self, encoder: Encoder | None) -> Encoder:
        """The encoder to use: the one given, the bundle's own, or the local one. Raises `EncoderMismatchError`."""
        chosen = encoder or self._encoder
        if chosen is None:
            chosen = self._encoder = local_encoder()
        if chosen.id != self.encoder_id:
            raise EncoderMismatchError(
                f"this bundle was fitted with encoder {self.encoder_id!r}, but {chosen.id!r} was given; "
                "give that encoder, or export a bundle made with yours"
            )
        return chosen

    def _embed(
        self, messages: Sequence[Message], encoder: Encoder, cache: VectorCache | None, *, every_prefix: bool
    ) -> ConversationVectors:
        return embed_conversation(
            messages,
            encoder,
            self._centred,
            rendering=self.rendering,
            every_prefix=every_prefix,
            cache=cache,
        )

    def _centred(self, vectors: Vectors) -> Vectors:
        """As `centre_and_normalise`, a text that sits on the centre giving 0: it says nothing, its margin is b."""
        try:
            return self.centre_and_normalise(vectors)
        except ZeroVector:
            if len(vectors) == 1:
                return np.zeros((1, self.dimension), dtype=np.float32)
            return np.concatenate([self._centred(vectors[row : row + 1]) for row in range(len(vectors))])

    def _vectors(
        self, source: Source, encoder: Encoder | None, cache: VectorCache | None, *, every_prefix: bool = True
    ) -> ConversationVectors | None:
        """The vectors of `source` at every user turn (of messages, without `every_prefix`, at the last one), None when
        it has none.
        """
        if isinstance(source, ConversationVectors):
            return source if len(source.turns) else None
        views = [item for item in source if isinstance(item, Views)]
        if views:
            return ConversationVectors.of_views(views)
        read = as_messages(source)  # type: ignore[arg-type]
        if not any(is_user_turn(message) for message in read):
            return None
        return self._embed(read, self._checked(encoder), cache, every_prefix=every_prefix)


def select_all(bundle: Bundle, error: str) -> Discovery:
    """Every artifact that is not off, in the order of the bundle's keys: what to do when nothing can be decided.

    Those that are always on say so; the others have the reason `unfitted`, as nothing scored them.
    """
    columns = bundle.columns
    outcomes = [
        Fired(key, None, None, Reason.ALWAYS if mode is Mode.ALWAYS else Reason.UNFITTED, version=version)
        for key, mode, version in zip(columns.keys, columns.modes, columns.versions, strict=True)
        if mode is not Mode.OFF
    ]
    return Discovery(
        fired=tuple(sorted(outcomes, key=lambda f: (f.reason != Reason.ALWAYS, f.artifact))), degraded=True, error=error
    )


def load_bundle(path: str | Path, encoder: Encoder | None = None, *, centre_digest: str | None = None) -> Bundle:
    """Open a bundle file. `encoder`: the local minilm by default, loaded when first needed, or any `Encoder`.

    Raises `BundleError` with the reason for a file that is no bundle, of an unknown format version, truncated or
    altered, and for a centre other than `centre_digest` where that is given; `EncoderMismatchError` for another
    encoder.
    """
    from sq_core.bundle_open import read_bundle

    bundle = read_bundle(Path(path))
    if centre_digest is not None and bundle.centre.digest != centre_digest:
        raise BundleError(f"{path}: made with centre {bundle.centre.digest}, expected {centre_digest}; export it again")
    return bundle if encoder is None else bundle.with_encoder(encoder)


def local_encoder() -> Encoder:
    """The packaged local encoder."""
    from sq_core.encoders import get_encoder

    return get_encoder("minilm")
