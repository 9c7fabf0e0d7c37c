"""What goes wrong on our side. How the guest's code ended is a Result, never one of these."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class CellaError(Exception):
    """The root of all that this package raises."""


class ProgramNotFound(CellaError):
    """There is no `cella` program for this platform, or it is not where it was named."""


class ServerStartError(CellaError):
    """The private server did not come up; the message has its last words."""


class ServerDied(CellaError):
    """The private server is gone, and its sessions with it. New sessions start a new one."""


class IncompatibleServer(CellaError):
    """The server speaks another version than this package."""


class ForkedError(CellaError):
    """A session or client of the parent process was used in a child made by fork."""


class SessionClosed(CellaError):
    """The session was closed, or ended by its own limits."""


class ConnectionFailed(CellaError):
    """The server could not be reached, or the connection broke before the answer was there."""


class ProtocolError(CellaError):
    """What came back is not what a Cella server says."""


class BatchError(CellaError):
    """A batch could not be run to its end."""


class ApiError(CellaError):
    """The server refused a request: `status` is HTTP's, `code` and `hint` are its own words."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", retry_after: Optional[float] = None):
        super().__init__(f"{message} ({hint})" if hint else message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.retry_after = retry_after

    def __reduce__(self) -> Any:
        return type(self), (self.status, self.code, self.message, self.hint, self.retry_after)


class InvalidRequest(ApiError):
    """400: something in it makes no sense."""


class AuthenticationError(ApiError):
    """401: the token is missing or wrong."""


class NotAllowed(ApiError):
    """403: this server does not allow it."""


class NotFound(ApiError):
    """404: no such session, run, file or checkpoint, or another client's."""


class DepsError(ApiError):
    """Packages could not be installed or removed; the message has the reason. The session is as it was."""


class DepsDisabledError(DepsError):
    """This session's packages are locked."""


class ArtifactError(ApiError):
    """An artifact could not be saved, loaded or deleted; the message has the reason."""


class ArtifactNotFoundError(ArtifactError):
    """There is no artifact of that name."""


class WorkflowError(ApiError):
    """A workflow could not be saved, found or run; the message has the reason."""


class Conflict(ApiError):
    """409: not in this state, or not with this executor."""


class Unsupported(Conflict):
    """409: what this session's executor cannot do, whatever its state; ask `session.supports` first."""


class TooLarge(ApiError):
    """413: more than the server takes."""


class ServerBusy(ApiError):
    """429 or 503: a limit of the server is reached; `retry_after` is its advice in seconds."""


_KINDS = {
    400: InvalidRequest,
    401: AuthenticationError,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: ServerBusy,
    503: ServerBusy,
}


def api_error(status: int, code: str, message: str, hint: str = "", retry_after: Optional[float] = None) -> CellaError:
    if code == "session_ended":
        return SessionClosed(message)
    if code == "unavailable":  # a service behind the server, such as a container engine: no limit that passes
        return ApiError(status, code, message, hint, retry_after)
    if code == "unsupported":
        return Unsupported(status, code, message, hint, retry_after)
    if code == "deps_disabled":
        return DepsDisabledError(status, code, message, hint, retry_after)
    if code.startswith(("deps_", "environment_")):
        return DepsError(status, code, message, hint, retry_after)
    if code == "artifact_not_found":
        return ArtifactNotFoundError(status, code, message, hint, retry_after)
    if code.startswith("artifact_"):
        return ArtifactError(status, code, message, hint, retry_after)
    if code.startswith("workflow_"):
        return WorkflowError(status, code, message, hint, retry_after)
    return _KINDS.get(status, ApiError)(status, code, message, hint, retry_after)
