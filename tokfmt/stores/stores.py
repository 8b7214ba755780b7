"""Open the store of an address: with its credentials, its endpoint and its region."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tokfmt.errors import MissingDependencyError, OptionError
from tokfmt.files.place import AZURE_ACCOUNT, Url
from tokfmt.stores import credentials
from tokfmt.stores.clients import Use, client_options, retry_config
from tokfmt.stores.failures import Asked
from tokfmt.stores.hub import open_hub
from tokfmt.stores.objects import ObjectStore
from tokfmt.stores.options import StoreOptions, configured
from tokfmt.stores.web import open_web

if TYPE_CHECKING:
    from obstore.store import AzureConfig, GCSConfig, S3Config


def open_store(url: Url) -> ObjectStore:
    """Open the store of an address."""
    try:
        import obstore.exceptions
    except ImportError as error:
        raise MissingDependencyError("obstore", "Reading from object stores") from error
    options = configured()
    opener = {"s3": _open_s3, "gs": _open_gs, "az": _open_azure, "hf": open_hub}.get(url.scheme, open_web)
    try:
        return opener(url, options)
    except obstore.exceptions.BaseError as error:  # Its text may hold what is wrong: half of a key, a file of keys.
        setting = _CONFIGURATION.get(url.scheme, "the address")
        raise OptionError(f"{url}: {setting} is not valid ({_reason(error)})") from None


_CONFIGURATION = {
    "s3": "the configuration of S3 in the environment",
    "gs": "the configuration of Google Cloud in the environment, or its file of credentials,",
    "az": "the configuration of Azure in the environment",
}


def _reason(error: Exception) -> str:
    """Return the name that obstore gives to what is wrong with a configuration, such as MissingSecretAccessKey."""
    match = re.search(r"source: ([A-Z][A-Za-z]+)", str(error))
    return match[1] if match else type(error).__name__


def _open_s3(url: Url, options: StoreOptions) -> ObjectStore:
    from obstore.store import S3Store

    access = credentials.s3_access(url, options)
    region = access.region or credentials.region_of(url, access.endpoint) or "us-east-1"

    def connect(region: str, use: Use = "read") -> S3Store:
        return S3Store(
            url.authority,
            config=cast("S3Config", {**access.config, "region": region}),
            client_options=client_options(use),
            retry_config=retry_config(use),
            credential_provider=access.provider,
        )

    return ObjectStore(
        Url(url.scheme, url.authority), connect, access.asked, region, endpoint=access.endpoint, lists=True
    )


def _open_gs(url: Url, options: StoreOptions) -> ObjectStore:
    from obstore.store import GCSStore

    access = credentials.google_access(options)
    return _of_cloud(url, partial(GCSStore, url.authority, config=cast("GCSConfig", access.config)), access.asked)


def _open_azure(url: Url, options: StoreOptions) -> ObjectStore:
    from obstore.store import AzureStore

    access = credentials.azure_access(options)
    account, _, container = url.authority.rpartition("/")
    if not account and not os.environ.get(AZURE_ACCOUNT):
        expected = f"az://ACCOUNT/CONTAINER/KEY, or {AZURE_ACCOUNT} and az://CONTAINER/KEY"
        raise OptionError(f"{url}: names no container (expected {expected})")
    config = cast("AzureConfig", {**access.config, **({"account_name": account} if account else {})})
    return _of_cloud(url, partial(AzureStore, container, config=config), access.asked)


def _of_cloud(url: Url, client: Callable[..., Any], asked: Asked) -> ObjectStore:
    """Return the store of a cloud that finds its buckets anywhere."""

    def connect(region: str, use: Use = "read") -> Any:  # noqa: ARG001 -- there are no regions
        return client(client_options=client_options(use), retry_config=retry_config(use))

    return ObjectStore(Url(url.scheme, url.authority), connect, asked, "", lists=True)
