"""HDFS and every other store for the Multi-Storage Client, through which Megatron reads and writes checkpoints.

In the client's configuration:

    profiles:
      lake:
        provider_bundle:
          type: stepahead.msc.Bundle
          options:
            base_path: hdfs://nameservice/runs

`msc://lake/7b/iter_0001000` then is `hdfs://nameservice/runs/7b/iter_0001000`. A base path without a cluster is a local folder.
The option `catalogue` is the URL of this site's store, whose catalogue says where temporary copies are, or "off"; by default what
STEPAHEAD_CATALOGUE says.
"""

from __future__ import annotations

import datetime
import io
import os
import posixpath
from collections.abc import Callable, Iterator
from typing import IO, Any

import multistorageclient
import multistorageclient.config
import multistorageclient.providers
from multistorageclient.providers.base import BaseStorageProvider
from multistorageclient.types import (
    ObjectMetadata,
    PreconditionFailedError,
    ProviderBundle,
    Range,
    StorageProviderConfig,
)

from stepahead import _objects
from stepahead._errors import ExistsError, IdentityError, OptionError

_TYPE = "stepahead"


class Provider(BaseStorageProvider):
    """A store as a provider of objects.

    Megatron writes in processes that it forks, where a Go runtime does not work: there another process does the work.
    """

    def __init__(
        self,
        base_path: str = "/",
        config_dict: dict[str, Any] | None = None,
        telemetry_provider: Callable[[], Any] | None = None,
        catalogue: str | None = None,
        **options: Any,
    ) -> None:
        if options:
            raise OptionError(f"stepahead.msc: options {sorted(options)}: there are only base_path and catalogue")
        scheme, separator, rest = base_path.partition("://")
        if (not separator and not base_path.startswith("/")) or (separator and scheme not in ("hdfs", "dir")):
            raise OptionError(f"base_path={base_path!r}: must be hdfs://nameservice/path or an absolute path")
        # What keys have before the name in the store: a scheme and a cluster, or nothing.
        self._root = f"{scheme}://{rest.partition('/')[0]}" if separator else ""
        self._base = "/"
        name = self._name(base_path)
        super().__init__(self._root + name, _TYPE, config_dict, telemetry_provider)
        self._base = name.rstrip("/") + "/"
        self._opened: tuple[int, Any] | None = None
        self._catalogue = catalogue

    @property
    def _objects(self) -> Any:
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), _objects.objects(f"{self._root or 'dir://'}/", self._catalogue)
        return self._opened[1]

    def _name(self, path: str) -> str:
        """What a path, which begins with the base path, is in the store."""
        rest = path.partition("://")[2] if "://" in path else path
        name = rest[rest.find("/") :] if "/" in rest else "/"
        name = posixpath.normpath(name).replace("//", "/", 1)
        if not f"{name}/".startswith(self._base):
            raise OptionError(f"{path}: it leads out of the base path {self._base_path}")
        return name

    def _metadata(self, info: dict[str, Any]) -> ObjectMetadata:
        folder = info["type"] == "directory"
        return ObjectMetadata(
            key=self._root + info["name"] + ("/" if folder else ""),
            content_length=info["size"],
            last_modified=datetime.datetime.fromtimestamp(info["mtime"], tz=datetime.timezone.utc),
            type=info["type"],
            etag=info["identity"] or None,
        )

    def _put_object(
        self,
        path: str,
        body: bytes,
        if_match: str | None = None,
        if_none_match: str | None = None,
        attributes: dict[str, str] | None = None,
    ) -> int:
        if if_none_match not in (None, "*"):
            raise NotImplementedError("if_none_match: only * is supported")
        try:
            self._objects.put(self._name(path), body, if_none_match is not None, if_match)
        except (ExistsError, IdentityError) as error:
            raise PreconditionFailedError(str(error)) from error
        return len(body)

    def _get_object(self, path: str, byte_range: Range | None = None) -> bytes:
        start, end = (None, None) if byte_range is None else (byte_range.offset, byte_range.offset + byte_range.size)
        data: bytes = self._objects.get(self._name(path), start, end)
        return data

    def _copy_object(self, src_path: str, dest_path: str) -> int:
        return int(self._objects.copy(self._name(src_path), self._name(dest_path)))

    def _delete_object(self, path: str, if_match: str | None = None) -> None:
        try:
            self._objects.delete(self._name(path), if_match)
        except IdentityError as error:
            raise PreconditionFailedError(str(error)) from error

    def _make_symlink(self, path: str, target: str) -> None:
        raise NotImplementedError(f"{path}: stores have no symbolic links")

    def _get_object_metadata(self, path: str, strict: bool = True) -> ObjectMetadata:
        return self._metadata(self._objects.info(self._name(path)))

    def _list_objects(
        self,
        path: str,
        start_after: str | None = None,
        end_at: str | None = None,
        include_directories: bool = False,
        symlink_handling: Any = None,
    ) -> Iterator[ObjectMetadata]:
        for info in self._objects.list(self._name(path), not include_directories):
            found = self._metadata(info)
            if (start_after is None or found.key > start_after) and (end_at is None or found.key <= end_at):
                yield found

    def _upload_file(self, remote_path: str, f: str | IO[Any], attributes: dict[str, str] | None = None) -> int:
        if isinstance(f, str):
            return int(self._objects.upload(os.path.abspath(f), self._name(remote_path)))
        data = f.read()
        return self._put_object(remote_path, data.encode() if isinstance(data, str) else data)

    def _download_file(self, remote_path: str, f: str | IO[Any], metadata: ObjectMetadata | None = None) -> int:
        if isinstance(f, str):
            return int(self._objects.download(self._name(remote_path), os.path.abspath(f)))
        data = self._get_object(remote_path)
        f.write(data.decode() if isinstance(f, io.TextIOBase) else data)
        return len(data)

    def is_file(self, path: str) -> bool:
        """Whether there is a file of that name."""
        try:
            return bool(self._objects.info(self._name(self._prepend_base_path(path)))["type"] == "file")
        except FileNotFoundError:
            return False


class Bundle(ProviderBundle):
    """What the configuration of the Multi-Storage Client names: `type: stepahead.msc.Bundle`, with `base_path` in `options`."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    @property
    def storage_provider_config(self) -> StorageProviderConfig:
        return StorageProviderConfig(type=_TYPE, options=dict(self._options))

    @property
    def credentials_provider(self) -> None:
        return None

    @property
    def metadata_provider(self) -> None:
        return None

    @property
    def replicas(self) -> list[Any]:
        return []


def address(url: str) -> str:
    """What an `msc://` URL means to programs that do not use the client: the address in the store of its profile."""
    try:
        client, name = multistorageclient.resolve_storage_client(url)
        base = str(getattr(client._storage_provider, "_base_path", ""))
    except Exception as error:  # the client's configuration, which may be wrong in any way
        raise OptionError(f"{url!r}: {error}") from error
    if not base.startswith(("/", "hdfs://", "dir://")):
        raise OptionError(f"{url!r}: its profile leads to {base!r}, which is no store of stepahead")
    return posixpath.join(base, name.lstrip("/"))


# The client looks providers up in its own tables: its configuration's schema takes no class for `storage_provider.type`.
multistorageclient.providers.StepaheadProvider = Provider
multistorageclient.config.STORAGE_PROVIDER_MAPPING[_TYPE] = "StepaheadProvider"
