"""The Hugging Face hub, opened when asked and never otherwise, and what can go wrong with it.

In: an endpoint, a token. Out: the client of `huggingface_hub`, and its errors as ours. Needs the extra `hub`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from krill.errors import ConfigError, KrillError, MissingExtra

RepositoryKind = Literal["model", "dataset"]


def open_hub(purpose: str, *, endpoint: str | None, token: str | None) -> Any:
    """The client; without a token it takes the one that the user has logged in with."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise MissingExtra(purpose, "hub") from None
    return HfApi(endpoint=endpoint, token=token)


@contextmanager
def hub_errors(
    raised: type[KrillError], repo_id: str, doing: str, *, refused_hint: str, unreachable_hint: str
) -> Iterator[None]:
    """What the client raises inside, as an error of ours: a wrong id, a refusal, or no hub to be reached."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    # The errors of the HTTP library beneath, be it requests or httpx, and OSError.
    unreachable: Any = HfHubHTTPError.__bases__
    try:
        yield
    except HFValidationError as error:
        raise ConfigError(
            f"`{repo_id}` is not the id of a repository: {_first_line(error)}",
            hint="write it as `user/name` or `organization/name`",
        ) from None
    except HfHubHTTPError as error:
        said = f"the hub refused {doing} `{repo_id}`: {_first_line(error)}"
        raise raised(said, hint=refused_hint) from None
    except unreachable as error:
        said = f"can't reach the hub for `{repo_id}`: {_first_line(error)}"
        raise raised(said, hint=unreachable_hint) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
