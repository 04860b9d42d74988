"""What a service refuses, in the one shape that pages and the API show: what, where, the mend."""


class ServiceError(Exception):
    status = 500
    code = "error"
    wrote_nothing = True  # which pages say

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.field, self.hint = message, field, hint


class Malformed(ServiceError):
    status, code = 400, "malformed"


class Forbidden(ServiceError):
    """Not theirs to change, whatever their role."""

    status, code = 403, "forbidden"


class NotFound(ServiceError):
    status, code = 404, "not_found"


class Invalid(ServiceError):
    status, code = 422, "invalid"


class TooLarge(ServiceError):
    status, code = 413, "too_large"


class Unavailable(ServiceError):
    """A needed part (the encoder, say) is away; nothing was written."""

    status, code = 503, "unavailable"


class DatabaseRefused(Unavailable):
    """It may have refused what comes after the write: a page's own questions."""

    wrote_nothing = False


class Busy(DatabaseRefused):
    """The database is locked or away: the same request may well succeed in a moment."""

    retry_after = 1


class Conflict(ServiceError):
    """The base the caller looked at is no longer the newest; both versions are named, nothing was written."""

    status, code = 409, "conflict"

    def __init__(
        self,
        message: str,
        *,
        base_version: int | None = None,
        current_version: int | None = None,
        made_by: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.base_version, self.current_version, self.made_by = base_version, current_version, made_by
