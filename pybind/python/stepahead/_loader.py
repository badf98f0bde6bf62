"""The loader as training code sees it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from stepahead import _arguments, _binding, _plans, _sources, _tokens
from stepahead._arrays import Lease, stored, views
from stepahead._batch import Batch
from stepahead._distributed import channel, disagrees, job_and_run, rank_and_world
from stepahead._errors import ClosedError, DatasetError, OptionError
from stepahead.transforms import Compose

_STATE_KEY = "stepahead"


class DataLoader:
    """Yields a rank's batches in an order that depends on the seed and the dataset only.

    Args:
        dataset: the dataset's folder, or its URL (`dir:///data/photos`, `hdfs://nameservice/data/photos`); or several
            datasets: a dict of names and `Source`s, or a list of `Source`s. HDFS is configured by the environment, as for Hadoop's own programs: HADOOP_CONF_DIR, HADOOP_USER_NAME,
            HADOOP_TOKEN_FILE_LOCATION, and a ticket cache or keytab.
        global_batch: samples a step over all ranks. It fixes the order, so keep it when the number of
            ranks changes. Excludes `batch_size`.
        batch_size: samples a step on each rank, as in torch.
        transform: a plan (`transforms.Compose`, or plan JSON as dict or str) for the one media field,
            or a dict of field -> plan. None where no field is a picture: see `fields`.
        seed: decides order and everything random. 0 to 2**64 - 1. Default: 0, so that every run has the same.
        shuffle: "full" (or True), "none" (or False), or "block": chunks in random order, and samples shuffled within a
            window of chunks, so that what is read together lies together.
        chunk, window: for "block", how many neighbouring samples stay together and how many such chunks are mixed.
            Default 1,024 and 32.
        last: "drop" leaves out the samples after the last whole global batch of an epoch; "pad"
            fills that batch from the epoch's start; "carry" fills it from the next epoch, so that nothing is lost or
            repeated. Default: "drop", and "carry" with several sources, where it is the only choice.
        temperature: flattens the shares of several sources: in proportion to weight ** (1 / temperature).
        epoch_steps: the steps of an epoch of several sources, or of `last="carry"`. Default: as many as one pass over
            all samples takes.
        changes: what differs from a step on, a list of dicts: `{"step": 5000, "weights": {"faces": 0}}` or
            `{"tokens": ..., "global_batch": ...}`. The run is another from there on, the same before: such a state
            loads.
        sample_tokens: tokens of a sample, for changes at a number of tokens.
        spec: the whole order as a dict, or its JSON (docs/sampler.md), in place of seed, batch, shuffle, last and what
            sources say of weights and epochs. How many samples a source has may be left out.
        balance: None: rank r of W gets the r-th of W equal parts of a global batch. "count": as many samples, dealt so that
            what they cost to decode, by their index, is even; "cost": even costs, and numbers of samples that differ.
            The samples of a step, and what they become, are the same.
        group_by_length: a column of the datasets' indexes that says how long a sample is, so that the samples of a step, and
            those of a rank, are of about the same length: an integer field ("caption_tokens"), a text field (its bytes), or
            of a media field "audio.duration_us", "image.length" and the like (docs/loader.md).
        group_steps: among how many steps samples are exchanged for that. Default 50.
        order: None, or "given": the ids of each step come from `give`, not from a seed.
        epochs: after how many epochs, 1 or more, iteration ends for good; None: never by itself.
        rank, world_size: this data-parallel rank and how many there are. Default: torch.distributed's
            if it is initialised, else 0 of 1.
        agents: None (everything is made here), "auto" (those that the registry lists) or a list of
            "host:port". Agents change the time of a step, never its bytes. Without agents, token, ca, client_cert, client_key, registry and
            fetch_deadline say nothing, so that one argument turns agents on and off.
        token: sent to agents that ask for one. Default: the variable STEPAHEAD_TOKEN.
        ca: PEM file with the authority that signs the agents' certificates. With it all agents are spoken
            to over TLS, without it only those on this host, in the clear. Default: STEPAHEAD_CA.
        client_cert, client_key: PEM files with this side's certificate and key, for agents that ask for
            one. Default: STEPAHEAD_CLIENT_CERT, STEPAHEAD_CLIENT_KEY.
        job, run: names of this job and of this start of it, equal on all ranks. With a token the job
            is the token's, and another one is an error. Default: the scheduler's variable or random;
            agreed through torch.distributed.
        tokens: `stepahead.Tokens(sequence_length)` for batches of tokens, of a dataset of token sequences. Agents
            prepare media only: such batches are read from the store. What is about pictures (transform, layout, workers, worker) is
            refused beside it, and on_bad="substitute": bad tokens stop the run.
        fields: the fields to deliver. Default: all. A field of files (media) that is named here and has no plan comes as a
            list of bytes, as they are stored: `fields=["image", "json"], transform={"image": plan}`.
        on_bad: "substitute" (default) replaces a sample whose content is bad by one that every rank and every
            restart replaces it by; "raise" stops with BadSampleError. A picture that is too small for the
            plan is not bad and stops with PlanError.
        layout: "channels_last" (default, a view) or "contiguous" (a copy).
        output: "torch" or "numpy". Default: torch where it is installed.
        prefetch: steps built ahead; 0 means the default. Bounds memory, never changes what comes.
        workers: local worker processes. Default, also of 0: the CPUs, at most 8.
        worker: path of the worker program. Default: the one that the wheel carries. Without a transform there are no workers.
        record: a file that gets one proof record for every sample delivered (`stepahead digest`).
        stats: a file that gets one JSON line for every step with what it cost.
        registry: the store's folder in which agents register. Default: `/.stepahead/agents`.
        fetch_deadline: seconds that an agent is waited for at most, more than 0. Default: 5.
        node: the storage node this process runs beside, if any: its replicas are read first. On HDFS a
            DataNode's host name, address or UUID.
        cache_dir: local folder for index files of remote stores.
        log_level: "debug", "info", "warn" (default) or "error"; the log goes to stderr.

    One `for` loop is the rest of the current epoch, the next loop the next one. `len()` is the number
    of steps of a whole epoch, equal on every rank.

    Not safe for use by several threads at once, except `close()`. Must be made in the process that
    uses it: after a fork it raises ForkError.

    Raises:
        OptionError, PlanError: an argument cannot work. DatasetError, StoreError: the dataset cannot be
        read. WorkerError: no worker program. While iterating: BadSampleError, PlanError, StoreError,
        WorkerError, IdentityError (a file of the dataset was overwritten).

    Example:
        >>> loader = DataLoader("photos", batch_size=32, transform=plan)  # doctest: +SKIP
        >>> for batch in loader:  # doctest: +SKIP
        ...     loss = model(batch["image"].float() / 255, batch["label"])
    """

    def __init__(
        self,
        dataset: _sources.Datasets,
        *,
        global_batch: int | None = None,
        batch_size: int | None = None,
        transform: Compose | Mapping[str, Any] | str | None = None,
        seed: int | None = None,
        shuffle: str | bool | None = None,
        chunk: int | None = None,
        window: int | None = None,
        last: str | None = None,
        temperature: float | None = None,
        epoch_steps: int | None = None,
        changes: Sequence[Mapping[str, Any]] | None = None,
        sample_tokens: int | None = None,
        spec: Mapping[str, Any] | str | None = None,
        balance: str | None = None,
        group_by_length: str | None = None,
        group_steps: int | None = None,
        order: str | None = None,
        epochs: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        agents: str | Sequence[str] | None = None,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        client_cert: str | os.PathLike[str] | None = None,
        client_key: str | os.PathLike[str] | None = None,
        job: str | None = None,
        run: str | None = None,
        tokens: _tokens.Tokens | None = None,
        fields: Sequence[str] | None = None,
        on_bad: str | None = None,
        layout: str | None = None,
        output: str | None = None,
        prefetch: int | None = None,
        workers: int | None = None,
        worker: str | os.PathLike[str] | None = None,
        record: str | os.PathLike[str] | None = None,
        stats: str | os.PathLike[str] | None = None,
        registry: str | None = None,
        fetch_deadline: float | None = None,
        node: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        log_level: str = "warn",
    ) -> None:
        self._handle = 0
        rank, world_size = rank_and_world(
            _arguments.whole("rank", rank, 0), _arguments.whole("world_size", world_size, 1)
        )
        batch_size = _arguments.whole("batch_size", batch_size, 1)
        global_batch = _arguments.whole("global_batch", global_batch, 1)
        job, run, token = (_arguments.text(n, v) for n, v in (("job", job), ("run", run), ("token", token)))
        whole = _sources.spec(spec)
        if (whole is None) == (global_batch is None and batch_size is None) or None not in (global_batch, batch_size):
            raise OptionError(
                "give global_batch (samples a step over all ranks) or batch_size (on each rank); with spec= neither"
            )
        if batch_size is not None:
            global_batch = batch_size * world_size
        if order not in (None, "given"):
            raise OptionError(
                f'order={order!r}: must be None or "given"; the order of Megatron-core is an argument of Tokens, '
                "order=stepahead.megatron.Order(...)"
            )
        if isinstance(shuffle, bool):
            shuffle = "full" if shuffle else "none"
        agent_list = (
            [agents] if isinstance(agents, str) else _arguments.texts("agents", () if agents is None else agents)
        )
        token = token if token is not None else os.environ.get("STEPAHEAD_TOKEN")
        nameless = bool(token) and job is None  # the job is the token's, whatever the scheduler calls it
        job, run = job_and_run("token" if nameless else job, run, world_size, bool(agent_list))
        if nameless:
            job = None
        self._job, self._run = job, run
        self._has_agents = bool(agent_list)
        # A loader of one rank, as rank 0 may have of its own, agrees with nobody.
        self._channel = channel(run) if order == "given" and world_size > 1 else None
        self._given = 0  # calls of give
        self._views = views(output)
        _tell_torch()
        options: dict[str, Any] = {
            **_sources.options(dataset),
            "spec": whole,
            "given": order == "given",
            "balance": _arguments.text("balance", balance),
            "group_by_length": _arguments.text("group_by_length", group_by_length),
            "group_steps": _arguments.whole("group_steps", group_steps, 1),
            "global_batch": global_batch,
            "seed": _arguments.whole("seed", seed, 0, 2**64 - 1),
            "shuffle": _arguments.text("shuffle", shuffle),
            "chunk": _arguments.whole("chunk", chunk, 1),
            "window": _arguments.whole("window", window, 1),
            "last": _arguments.text("last", last),
            "temperature": _arguments.positive("temperature", temperature),
            "epoch_steps": _arguments.whole("epoch_steps", epoch_steps, 1),
            "changes": _sources.changes(changes),
            "sample_tokens": _arguments.whole("sample_tokens", sample_tokens, 1),
            "epochs": _arguments.whole("epochs", epochs, 1),
            "rank": rank,
            "world_size": world_size,
            "agents": agent_list,
            "token": token,
            "ca": _arguments.path("ca", ca) or os.environ.get("STEPAHEAD_CA"),
            "client_cert": _arguments.path("client_cert", client_cert) or os.environ.get("STEPAHEAD_CLIENT_CERT"),
            "client_key": _arguments.path("client_key", client_key) or os.environ.get("STEPAHEAD_CLIENT_KEY"),
            "job": job,
            "run": run,
            "fields": _fields(fields),
            "on_bad": _arguments.text("on_bad", on_bad),
            "layout": _arguments.text("layout", layout),
            "prefetch": _arguments.whole("prefetch", prefetch),
            "workers": _arguments.whole("workers", workers),
            "worker": _arguments.path("worker", worker) or (_bundled_worker() if tokens is None else None),
            "record": _arguments.path("record", record),
            "stats": _arguments.path("stats", stats),
            "registry": _arguments.text("registry", registry),
            "fetch_deadline": _arguments.positive(
                "fetch_deadline", _arguments.seconds("fetch_deadline", fetch_deadline)
            ),
            "node": _arguments.text("node", node),
            "cache_dir": _arguments.path("cache_dir", cache_dir) or _cache_dir(),
            "log_level": _arguments.text("log_level", log_level),
            "environment": _binding.environment(),
            **_plans.options(transform),
            **_tokens.options(tokens),
        }
        text = _arguments.dumps({k: v for k, v in options.items() if v is not None})
        self._handle = _binding.call("Open", text)
        self._next = threading.Lock()
        self._used = next(_uses)
        _open_loaders.add(self)
        self._wait_until_open()
        self._info: dict[str, Any] = json.loads(_binding.call("Info", self._handle))

    def _wait_until_open(self) -> None:
        try:
            while not _binding.call("Wait", self._handle, _binding.SLICE_MILLIS):
                pass
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """The steps of a whole epoch. A loader whose steps are given has no length."""
        steps = int(self._info["steps_per_epoch"])
        if not steps:
            raise TypeError("the steps of this loader are given one by one: it has no length")
        return steps

    @property
    def classes(self) -> list[str]:
        """The names of the labels 0, 1, ...; empty for a dataset without classes."""
        return list(self._info["classes"] or [])

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch; after its last batch, the whole next one."""
        _binding.call("Begin", self._open_handle())
        # Nothing here may refer to a batch while the next is waited for: its memory would stay.
        yield from iter(self._wait, None)

    def _wait(self) -> Batch | None:
        if not self._next.acquire(blocking=False):
            raise OptionError("this loader is already waited for in another thread: use it from one")
        try:
            while True:
                text = _binding.call("Next", self._open_handle(), _binding.SLICE_MILLIS)
                if text:
                    descriptor, _, details = text.partition("\n")
                    return self._batch(json.loads(descriptor), details)
        finally:
            self._next.release()

    def _batch(self, descriptor: dict[str, Any], details: str) -> Batch | None:
        if descriptor.get("end"):
            return None
        lease = Lease(self._handle, descriptor["batch"])
        batch = Batch()
        for field in descriptor["fields"]:
            batch[field["name"]] = self._value(field, lease)
        if any("offsets" in field for field in descriptor["fields"]):
            _binding.call("ReleaseStored", self._handle, descriptor["batch"])
        batch.step = descriptor["step"]
        batch.epoch = descriptor["epoch"]
        batch._names = self._info["sources"]
        batch._details = details
        self._used = next(_uses)
        return batch

    def _value(self, field: dict[str, Any], lease: Lease) -> Any:
        match field["dtype"]:
            case "str":
                return field.get("strings", [])
            case "bytes":
                return stored(field)
        return self._views.view(field, lease)

    def give(
        self,
        steps: Sequence[Sequence[Any]],
        *,
        first: int | None = None,
        number: int | None = None,
        epoch: int | None = None,
    ) -> None:
        """Tell the samples of the next steps, of a loader with `order="given"`.

        Args:
            steps: a list of ids for each step, a whole global batch in order of position: rank r of W gets the r-th of W
                equal parts. An id is the number of a sample; with several sources, a pair of a source's name (or index)
                and a number. All ranks must be given the same; they compare it where torch.distributed runs.
            first: the step that the first list is for. Default: the step after those given before.
            number: of this list, at least that of the one before. A larger one takes back every step that was given and not
                delivered, here and from agents: `steps` then begin at the next step to deliver. Default: unchanged, 0 at
                first.
            epoch: with seed, source and id, the key of all that is random in these samples. Default: of each step, its number.

        Raises:
            OptionError: an id that there is not, a list of another length than the global batch, a step that does not
                follow; or another rank was given other samples. Nothing has changed then.

        Example:
            >>> loader = DataLoader("photos", batch_size=2, transform=plan, order="given")  # doctest: +SKIP
            >>> loader.give([[5, 1], [7, 7]])  # doctest: +SKIP
            >>> [batch.samples for batch in loader]  # doctest: +SKIP
            [[5, 1], [7, 7]]
        """
        lists = {
            "steps": _sources.steps(steps, self._info["sources"], _arguments.whole("epoch", epoch, 0)),
            "first": _arguments.whole("first", first, 0),
            "number": _arguments.whole("number", number, 0),
        }
        text = _arguments.dumps({k: v for k, v in lists.items() if v is not None})
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._given += 1
        if self._channel and disagrees(f"given/{self._channel}/{self._given}", digest):
            raise OptionError("give: this rank was given other samples than another one: all must be given the same")
        _binding.call("Give", self._open_handle(), text)

    def state_dict(self, **_: Any) -> dict[str, Any]:
        """Where the run stands after the last batch that was yielded: under 1 KB, equal on every rank.

        Batches that were only prefetched do not count. A checkpoint needs it once, under one key, and
        it can be loaded with another number of ranks at the same global batch.
        """
        return {_STATE_KEY: _binding.call("State", self._open_handle())}

    def state_at(self, step: int) -> dict[str, Any]:
        """The `state_dict()` of this run before a step, counted through all epochs from 0: `load_state_dict` goes there.

        For a run that begins in the middle, such as one that takes over from another loader in the same order.

        Raises:
            OptionError: the steps are given one by one, so that a state depends on what was given.
        """
        number = _arguments.whole("step", step, 0)
        return {_STATE_KEY: _binding.call("StateAt", self._open_handle(), number)}

    def load_state_dict(self, state_dict: Mapping[str, Any], **_: Any) -> None:
        """Continue from a state: the next batch is the one after it, and nothing skipped is read.

        Raises:
            IdentityError: the state is of another dataset, seed, global batch or order; `diff` says what
                differs.
            DatasetError: it is no state, or a damaged one.
        """
        if not isinstance(state_dict, Mapping) or not isinstance(state_dict.get(_STATE_KEY), str):
            raise DatasetError(
                f"load_state_dict: no text under the key {_STATE_KEY!r}: this is not a state of a stepahead loader"
            )
        _binding.call("Load", self._open_handle(), state_dict[_STATE_KEY])

    def set_epoch(self, epoch: int) -> None:
        """Does nothing: every epoch has an order of its own already. Trainers call it on samplers."""

    def stats(self) -> dict[str, Any]:
        """Totals since the loader was made: steps, seconds by cause, prepared share, fallbacks by reason and node."""
        answer: dict[str, Any] = json.loads(_binding.call("Stats", self._open_handle()))
        return answer

    def worker_cpu_seconds(self) -> float:
        """CPU time of this loader's worker processes so far, in seconds."""
        return float(_binding.call("WorkerCPU", self._open_handle()))

    def close(self) -> None:
        """End goroutines and worker processes. Batches still held stay valid. A second call does nothing."""
        handle, self._handle = self._handle, 0
        if handle and _binding.alive():
            _binding.call("Close", handle)

    def _open_handle(self) -> int:
        if not self._handle:
            raise ClosedError("the loader is closed: make a new one")
        return self._handle

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and _binding is not None:
            self.close()


def _tell_torch() -> None:
    """Have torch's DataLoader and those built on it wrap a loader as it is: as a data set to be iterated."""
    data = sys.modules.get("torch.utils.data")
    if data is not None:
        data.IterableDataset.register(DataLoader)


_open_loaders: weakref.WeakSet[DataLoader] = weakref.WeakSet()
_uses = itertools.count()  # orders what was opened, or gave a batch


def loader_in_use() -> DataLoader | None:
    """Of this process's open loaders, one whose steps agents prepare, and of several the one that gave a batch, or was opened, last."""
    return max(list(_open_loaders), key=lambda loader: (loader._has_agents, loader._used), default=None)


def _close_all() -> None:
    for loader in list(_open_loaders):
        loader.close()


# Before non-daemon threads are joined: plain atexit would be too late for a thread that waits in Next.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]


def _bundled_worker() -> str | None:
    path = os.path.join(os.path.dirname(__file__), "_bin", "stepahead-worker")
    return path if os.path.exists(path) else None


def _cache_dir() -> str:
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stepahead")


def _fields(fields: Any) -> list[str] | None:
    if fields is None:
        return None
    names = _arguments.texts("fields", fields)
    if not names:
        raise OptionError("fields=[]: names no field: leave it out to have all")
    return names
