"""Options of stores: an endpoint, a region, a profile. A recipe or a manifest cannot give any of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from tokfmt.base.options import given_options, parse_options
from tokfmt.errors import OptionError
from tokfmt.files.place import close_stores

ENVIRONMENT = "TOKFMT_STORE_OPTIONS"
"""Variable with the options of the process that was started by the user: its workers inherit it. `NAME=VALUE` lines."""
_SECRETS = ("access_key_id", "secret_access_key", "session_token", "account_key", "sas_token", "password", "token")


@dataclass(frozen=True)
class StoreOptions:
    """Options of all stores of a process."""

    endpoint: str = ""  # of a server that speaks the protocol of S3, GCS or Azure, such as "https://minio.example:9000"
    region: str = ""  # region of the buckets; "" to ask the server
    profile: str = ""  # profile in ~/.aws/config and ~/.aws/credentials; "" for AWS_PROFILE, or `default`
    anonymous: bool = False
    requester_pays: bool = False  # accept the cost of requests to buckets that bill the reader
    allow_http: bool = False  # Accept addresses without encryption. Servers of this machine are always accepted.

    @staticmethod
    def of(values: Iterable[str] | Mapping[str, object]) -> StoreOptions:
        """Return the options of `NAME=VALUE` words, or of a mapping of names to values."""
        values = given_options(values)
        for name in values:
            if name.lower().replace("-", "_") in _SECRETS:
                raise OptionError(
                    f"--store-opt {name}: secrets are not taken from options, which other users can see. "
                    "Set the environment variables or the profile of the store",
                    name="store-opt",
                )
        return parse_options(StoreOptions, values, "store")

    def words(self) -> list[str]:
        """Return the options as `NAME=VALUE` words that `of` accepts."""
        changed = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [f"{name}={str(value).lower() if value is True else value}" for name, value in changed if value]


def configure(options: StoreOptions) -> None:
    """Use options for all stores that this process and its workers open from now on."""
    if words := options.words():
        os.environ[ENVIRONMENT] = "\n".join(words)
    else:
        os.environ.pop(ENVIRONMENT, None)
    close_stores()


def configured() -> StoreOptions:
    """Return the options of this process."""
    return StoreOptions.of(os.environ.get(ENVIRONMENT, "").splitlines())
