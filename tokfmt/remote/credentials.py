"""Credentials and configuration of stores, looked for in the order in which the tools of each store do.

obstore reads environment variables and asks the metadata service of a cloud, but not `~/.aws/credentials`. On a laptop
it would wait for an address that does not exist, and report that address.
"""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tokfmt.core.errors import MissingDependencyError, OptionError
from tokfmt.core.messages import Option
from tokfmt.core.place import Url
from tokfmt.remote.failures import Asked
from tokfmt.remote.options import StoreOptions

_METADATA = ("169.254.169.254", 80)
_METADATA_SECONDS = 0.3
_REGION_SECONDS = 5.0
_BY_BOTO3 = ("sso_start_url", "sso_session", "role_arn", "credential_process", "source_profile")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True)
class S3Access:
    """How to reach a bucket of S3.

    Attributes:
        config: Configuration of `obstore.store.S3Store`. It may hold secrets: it is never shown or pickled.
        asked: The credentials in words.
        endpoint: Address of the server; "" for AWS.
        region: Region of the bucket; "" if the server has to be asked.
        provider: A credential provider of obstore, for credentials that expire; None for those in `config`.
    """

    config: dict[str, Any] = field(repr=False)
    asked: Asked
    endpoint: str
    region: str
    provider: Any = field(default=None, repr=False)


def s3_access(url: Url, options: StoreOptions) -> S3Access:
    """Find the credentials, the endpoint and the region of a bucket of S3.

    Raises:
        OptionError: If the address has no valid bucket, or the endpoint has no encryption.
        MissingDependencyError: If the profile needs boto3, which is not installed.
    """
    if not _BUCKET.fullmatch(url.authority):
        raise OptionError(f"{url}: is not an address of an object (expected s3://BUCKET/KEY)")
    name = options.profile or os.environ.get("AWS_PROFILE") or "default"
    profile = _profile(name)
    if options.profile and not profile:
        raise OptionError(f"{Option('store-opt', f'profile={name}')}: is not a profile in ~/.aws", name="store-opt")
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
    return S3Access(config | secrets, asked, endpoint, region, provider)


def _s3_credentials(name: str, profile: Mapping[str, str], options: StoreOptions) -> tuple[dict[str, Any], Asked, Any]:
    """Return the configuration of the first credentials that are found, their name, and a provider for some."""
    unsigned = {"skip_signature": True}
    if options.anonymous:
        return unsigned, Asked("", (str(Option("store-opt", "anonymous=true")),)), None
    if os.environ.get("AWS_ACCESS_KEY_ID") and not options.profile:
        keys = {
            "access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
            "secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
        }
        if token := os.environ.get("AWS_SESSION_TOKEN"):
            keys["session_token"] = token
        return keys, Asked("the environment"), None
    if "aws_access_key_id" in profile:
        keys = {
            "access_key_id": profile["aws_access_key_id"],
            "secret_access_key": profile.get("aws_secret_access_key", ""),
        }
        if token := profile.get("aws_session_token"):
            keys["session_token"] = token
        return keys, Asked(f"profile {name}"), None
    if any(key in profile for key in _BY_BOTO3):
        return {}, Asked(f"profile {name}"), _boto3_provider(name)
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return {}, Asked("the web identity"), None
    if os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return {}, Asked("the container"), None
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true" and _answers(_METADATA, _METADATA_SECONDS):
        return {}, Asked("the role of this machine"), None
    return unsigned, Asked("", ("environment", f"profile {name}", "metadata service")), None


def _boto3_provider(name: str) -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        purpose = f"profile {name} of ~/.aws/config (single sign-on, a role, or a credential process)"
        raise MissingDependencyError("boto3", "", purpose) from error
    return Boto3CredentialProvider(session=boto3.Session(profile_name=name))


def _profile(name: str) -> dict[str, str]:
    """Return the keys of a profile in the two files of AWS; {} if it is in neither."""
    home = Path.home() / ".aws"
    config = Path(os.environ.get("AWS_CONFIG_FILE") or home / "config").expanduser()
    shared = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials").expanduser()
    found = dict[str, str]()
    for file, section in ((config, name if name == "default" else f"profile {name}"), (shared, name)):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise OptionError(f"{file}: cannot be read as a file of profiles") from error
        if parser.has_section(section):
            found |= dict(parser.items(section))
            services = f"services {found.get('services', '')}"
            if parser.has_section(services) and "endpoint_url" not in found:
                found |= _nested(parser.get(services, "s3", fallback=""))
    return found


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
    """Check that an address is https, or on this machine, or that the user accepts it without encryption.

    Raises:
        OptionError: If it is not.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError(f"endpoint {parts.hostname or 'without a host'}: is not an address (expected https://HOST)")
    if parts.scheme == "http" and not options.allow_http and not is_loopback(parts.hostname):
        raise OptionError(
            f"http://{parts.hostname}: is not encrypted. {Option('store-opt', 'allow_http=true')} accepts it",
            name="store-opt",
        )


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
