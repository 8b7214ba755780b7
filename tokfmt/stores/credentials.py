"""Credentials and configuration of stores, looked for in the order in which the tools of each store do.

obstore reads environment variables and asks the metadata service of a cloud, but not `~/.aws/credentials`. On a laptop
it would wait for an address that does not exist, and report that address.
"""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tokfmt.errors import MissingDependencyError, OptionError
from tokfmt.files.place import Url
from tokfmt.stores.failures import ANONYMOUS, CANNOT_RENEW, Asked
from tokfmt.stores.options import StoreOptions
from tokfmt.wording import printable

if TYPE_CHECKING:
    from obstore.store import S3Credential

_METADATA = ("169.254.169.254", 80)
_METADATA_SECONDS = 0.3
_REGION_SECONDS = 5.0
_BY_BOTO3 = ("sso_start_url", "sso_session", "role_arn", "credential_process", "source_profile")
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
"""Keys of a profile. In capitals, they are variables of the environment."""
_GOOGLE = (
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
_AZURE = (
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    *("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_TOKEN"),
    *("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"),
)
"""Variables that obstore reads, the first of which is named in messages."""
_FIXED = timedelta(minutes=30)
"""After this time, credentials that state no end are asked for again."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True)
class S3Access:
    """How to reach a bucket of S3."""

    # of `obstore.store.S3Store`; may hold secrets, and is never shown or pickled
    config: dict[str, Any] = field(repr=False)
    asked: Asked  # credentials in words
    endpoint: str  # address of the server; "" for AWS
    region: str  # region of the bucket; "" if the server has to be asked
    provider: Any = field(default=None, repr=False)  # a credential provider of obstore, for credentials that expire


def s3_access(url: Url, options: StoreOptions) -> S3Access:
    """Find the credentials, the endpoint and the region of a bucket of S3."""
    if not _BUCKET.fullmatch(url.authority):
        valid = "s3://BUCKET/KEY, a bucket of 2 to 255 letters, digits, dots, hyphens and underscores"
        raise OptionError(f"{printable(url)}: has no valid bucket (expected {valid})")
    name = options.profile or os.environ.get("AWS_PROFILE") or "default"
    profile = _profile(name)
    if options.profile and not profile:
        raise OptionError(f"--store-opt profile={name}: is not a profile in ~/.aws", name="store-opt")
    if not profile and os.environ.get("AWS_PROFILE") and not options.anonymous and not os.environ.get(_KEYS[0].upper()):
        raise OptionError(f"AWS_PROFILE={printable(name)}: is not a profile in ~/.aws")
    endpoint = (
        options.endpoint
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or profile.get("endpoint_url", "")
    )
    environment_region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = options.region or environment_region or profile.get("region") or ("us-east-1" if endpoint else "")
    config: dict[str, Any] = {}
    if endpoint:
        check_encrypted(endpoint, options)
        config |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    if options.requester_pays:
        config["request_payer"] = True
    secrets, asked, provider = _s3_credentials(name, profile, options)
    asked = asked._replace(server=server_of(endpoint) if endpoint else f"{url.authority}.s3.amazonaws.com")
    return S3Access(config | secrets, asked, endpoint, region, provider)


def _s3_credentials(name: str, profile: Mapping[str, str], options: StoreOptions) -> tuple[dict[str, Any], Asked, Any]:
    """Return the configuration of the first credentials that are found, their name, and a provider for some."""
    unsigned = {"skip_signature": True}
    if options.anonymous:
        return unsigned, Asked("", (str(ANONYMOUS),)), None
    environment = {name: os.environ.get(name.upper(), "") for name in _KEYS}
    for keys, where in ((environment if not options.profile else {}, "the environment"), (profile, f"profile {name}")):
        if keys.get("aws_access_key_id"):
            return _key(keys, where), Asked(where), None
    if any(key in profile for key in _BY_BOTO3):
        single = any(key.startswith("sso_") for key in profile)
        renewal = f"Run aws sso login --profile {name}" if single else "Renew them"
        return {}, Asked(f"profile {name}", renewal=renewal), _boto3_provider(name)
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return {}, Asked("the web identity"), None
    if os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return {}, Asked("the container"), None
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true" and _answers(_METADATA, _METADATA_SECONDS):
        return {}, Asked("the role of this machine"), None
    return unsigned, Asked("", ("environment", f"profile {name}", "metadata service")), None


def _key(settings: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return a key as the configuration of obstore."""
    if not settings.get("aws_secret_access_key"):
        raise OptionError(f"{where} has aws_access_key_id, and no aws_secret_access_key")
    return {name.removeprefix("aws_"): settings[name] for name in _KEYS if settings.get(name)}


def _boto3_provider(name: str) -> Any:
    """Return a function that gives the credentials of a profile and when they end; obstore asks 5 minutes before."""
    try:
        import boto3
        import botocore.exceptions
    except ImportError as error:
        purpose = f"profile {name} of ~/.aws/config (single sign-on, a role, or a credential process)"
        raise MissingDependencyError("boto3", purpose) from error
    session = boto3.Session(profile_name=name)

    def credentials() -> S3Credential:
        try:
            session_credentials = session.get_credentials()
            frozen = session_credentials.get_frozen_credentials()
        except (botocore.exceptions.BotoCoreError, AttributeError, OSError):
            raise RuntimeError(CANNOT_RENEW) from None  # Their texts may hold what a credential process printed.
        ends = getattr(session_credentials, "_expiry_time", None) or datetime.now(UTC) + _FIXED
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": ends.astimezone(UTC),  # obstore takes no other time zone.
        }

    return credentials


@dataclass(frozen=True)
class CloudAccess:
    """How to reach a bucket of Google Cloud, or a container of Azure."""

    # of the store of obstore, beside what it reads from the environment itself
    config: dict[str, Any] = field(repr=False)
    asked: Asked  # credentials in words


def google_access(options: StoreOptions) -> CloudAccess:
    """Find the credentials of Google Cloud, as obstore and gcloud do."""
    config: dict[str, Any] = {}
    if options.endpoint:
        check_encrypted(options.endpoint, options)
        config["base_url"] = options.endpoint
    named = next((name for name in _GOOGLE if os.environ.get(name)), None)
    if not options.anonymous and named:
        return CloudAccess(config, Asked(named))
    home = Path(os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config/gcloud")
    file = home / "application_default_credentials.json"
    if not options.anonymous and file.is_file():
        return CloudAccess({**config, "application_credentials": str(file)}, Asked("gcloud"))
    return _of_machine(config, options, (*_GOOGLE[-1:], "gcloud"))


def azure_access(options: StoreOptions) -> CloudAccess:
    """Find the credentials of Azure: a key, a signature or an application in the environment, or the program `az`."""
    config: dict[str, Any] = {}
    endpoint = options.endpoint or os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT")
    if endpoint:
        check_encrypted(endpoint, options)
        config["endpoint"] = endpoint
    named = next((name for name in _AZURE if os.environ.get(name)), None)
    if not options.anonymous and named:
        return CloudAccess(config, Asked(named))
    if not options.anonymous and shutil.which("az"):
        return CloudAccess({**config, "use_azure_cli": True}, Asked("the program az"))
    return _of_machine(config, options, ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "the program az"))


def _of_machine(config: dict[str, Any], options: StoreOptions, looked: tuple[str, ...]) -> CloudAccess:
    """Return the access with the role of this machine, or without credentials."""
    if options.anonymous:
        return CloudAccess({**config, "skip_signature": True}, Asked("", (str(ANONYMOUS),)))
    disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if not disabled and _answers(_METADATA, _METADATA_SECONDS):
        return CloudAccess(config, Asked("the role of this machine"))
    return CloudAccess({**config, "skip_signature": True}, Asked("", (*looked, "metadata service")))


def _profile(name: str) -> dict[str, str]:
    """Return the keys of a profile in the two files of AWS; {} if it is in neither."""
    home = Path.home() / ".aws"
    config = Path(os.environ.get("AWS_CONFIG_FILE") or home / "config").expanduser()
    shared = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials").expanduser()
    settings = dict[str, str]()
    for file, section in ((config, name if name == "default" else f"profile {name}"), (shared, name)):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise OptionError(f"{file}: cannot be read as a file of profiles") from error
        if parser.has_section(section):
            settings |= dict(parser.items(section))
            services = f"services {settings.get('services', '')}"
            if parser.has_section(services) and "endpoint_url" not in settings:
                settings |= _nested(parser.get(services, "s3", fallback=""))
    return settings


def _nested(text: str) -> dict[str, str]:
    """Return the `endpoint_url` of a nested section, which follows `s3 =` in indented lines."""
    pairs = (line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs if key.strip() == "endpoint_url"}


def _answers(address: tuple[str, int], seconds: float) -> bool:
    try:
        socket.create_connection(address, seconds).close()
    except OSError:
        return False
    return True


def check_encrypted(address: str, options: StoreOptions) -> None:
    """Check that an address is https, or on this machine, or that the user accepts it without encryption."""
    parts, shown = urlsplit(address), server_of(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError(f"endpoint {shown}: is not an address (expected https://HOST)")
    if parts.scheme == "http" and not options.allow_http and not is_loopback(parts.hostname):
        raise OptionError(
            f"http://{shown}: is not encrypted. --store-opt allow_http=true accepts it",
            name="store-opt",
        )


def server_of(address: str) -> str:
    """Return the host and the port of an address, without a password, a path or a query."""
    return printable(re.split("[/?#]", address.partition("://")[2] or address)[0].rpartition("@")[2])


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Return a redirect as an HTTPError instead of following it."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None


def region_of(url: Url, endpoint: str) -> str:
    """Ask a server for the region of a bucket, without credentials; "" if it does not say."""
    address = f"{endpoint.rstrip('/')}/{url.authority}" if endpoint else f"https://{url.authority}.s3.amazonaws.com"
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310 -- `check_encrypted` has looked at it
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_REGION_SECONDS) as answer:
            return str(answer.headers.get("x-amz-bucket-region") or "")
    except urllib.error.HTTPError as error:
        return str(error.headers.get("x-amz-bucket-region") or "")
    except (OSError, ValueError):
        return ""
