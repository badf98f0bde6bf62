"""Tell storage what comes of a job's checkpoints, and that a job will start: one line each, none of which waits.

>>> from stepahead import lifecycle
>>> lifecycle.saving("hdfs://ns/runs/7b/step-1000", step=1000)  # doctest: +SKIP
>>> lifecycle.committed("hdfs://ns/runs/7b/step-1000", step=1000)  # doctest: +SKIP

The agents beside the store keep what is said for the controller; a save also stops the job's step clock there. A background
thread finds the agents and tells them, so a call costs microseconds and never fails for them: what could not be told is a
line on standard error, and counted by `told`. Only wrong arguments raise. Where torch.distributed runs, rank 0
speaks and the calls of other ranks do nothing, so all may call.

`hook_saves()` says the two above by itself, of every checkpoint that torch.distributed.checkpoint or megatron-core saves, and `hook_loads()` that all ranks
have loaded one.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import statistics
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepahead import _arguments, _binding
from stepahead._distributed import _JOB_VARIABLES, _group
from stepahead._errors import ForkError, OptionError
from stepahead._loader import loader_in_use

if TYPE_CHECKING:
    from stepahead._saves import Hooks

__all__ = [
    "Loading",
    "Told",
    "committed",
    "configure",
    "deleted",
    "ended",
    "evaluation_cancelled",
    "evaluation_decided",
    "evaluation_done",
    "evaluation_loaded",
    "evaluation_opened",
    "evaluation_result",
    "evaluation_scheduled",
    "hook_loads",
    "hook_saves",
    "loading",
    "loss_spike",
    "saving",
    "starting",
    "told",
]

Path = str | os.PathLike[str]

SAVING_HOLDS = 600.0
_LONGEST = 86400.0  # seconds: what a hint can say of how long something took

_log = logging.getLogger("stepahead.lifecycle")


class _Speaker:
    """Who this process is to agents, and the options of how to reach them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may speak, in the midst of what its thread says
        self.given: dict[str, Any] = {}
        self.run = ""
        self.spoke = False
        self.last = ""  # what was spoken of last
        os.register_at_fork(after_in_child=self.after_fork)

    def after_fork(self) -> None:
        self.lock = threading.RLock()
        self.run = ""
        self.spoke = False
        self.last = ""

    def options(self, path: str) -> str:
        """The options of the teller for what lies at a path."""
        given = dict(self.given)
        job, run = self._names(given)
        options = {
            "store": given.get("store") or _store_of(path),
            "agents": given.get("agents"),
            "registry": given.get("registry"),
            "token": given.get("token") or os.environ.get("STEPAHEAD_TOKEN"),
            "ca": given.get("ca") or os.environ.get("STEPAHEAD_CA"),
            "client_cert": given.get("client_cert") or os.environ.get("STEPAHEAD_CLIENT_CERT"),
            "client_key": given.get("client_key") or os.environ.get("STEPAHEAD_CLIENT_KEY"),
            "job": job,
            "run": run,
            "environment": _binding.environment(),
        }
        if options["token"] and not given.get("job"):
            options["job"] = None  # the job is the token's
        return _arguments.dumps({k: v for k, v in options.items() if v is not None})

    def _names(self, given: Mapping[str, Any]) -> tuple[str, str]:
        """The job and run of the loader in use, so that agents know whose clock a save stops; else of the environment."""
        job, run = given.get("job"), given.get("run")
        loader = loader_in_use()
        if loader is not None:
            job, run = job or loader._job, run or loader._run
        job = job or next((os.environ[v] for v in _JOB_VARIABLES if os.environ.get(v)), None)
        if not run:
            self.run = self.run or os.urandom(8).hex()
        return job or f"job-{os.getpid()}-{os.uname().nodename}", run or self.run


def _address(name: str, path: Any) -> str:
    """Agents see a path from a folder of their own: a relative one becomes absolute."""
    text = _arguments.path(name, path)
    if not text or "\0" in text:
        raise OptionError(f"{name}={path!r}: must be a folder, a file or a URL")
    if text.startswith("msc:/"):
        try:
            from stepahead import msc
        except ImportError as error:
            raise OptionError(
                f"{name}={path!r}: {error}: what an msc:// URL means is known to multi-storage-client"
            ) from error
        text = msc.address(text)
    elif text.startswith("stepahead://"):
        rest = text.removeprefix("stepahead://")
        text = rest if rest.startswith("/") else f"hdfs://{rest}"
    return text if "://" in text or text.startswith("hdfs:") else os.path.abspath(text)


def _store_of(address: str) -> str:
    """What checkpoints of one run have in common: the cluster, or the folder that they are in."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme not in ("dir", "file"):
        return f"{scheme}://{rest.partition('/')[0]}/"
    return os.path.dirname(address.rstrip("/")) or "/"


_speaker = _Speaker()


def configure(
    *,
    store: Path | None = None,
    agents: str | Sequence[str] | None = None,
    registry: str | None = None,
    token: str | None = None,
    ca: Path | None = None,
    client_cert: Path | None = None,
    client_key: Path | None = None,
    job: str | None = None,
    run: str | None = None,
) -> None:
    """How the agents are reached, from the next call on, where the defaults do not do.

    Args:
        store: a path or URL in the store whose agents are told. Default: that of the checkpoint.
        agents: "auto", or addresses as of `DataLoader`. Default: those that have registered in the store.
        registry: the folder in which agents register, as of `DataLoader`.
        token: sent to the agents. Default: STEPAHEAD_TOKEN.
        ca, client_cert, client_key: as of `DataLoader`. Defaults: STEPAHEAD_CA, STEPAHEAD_CLIENT_CERT, STEPAHEAD_CLIENT_KEY.
        job, run: who speaks. Default: those of this process's loader; of several, one with agents, and the one that gave a batch, or was
            opened, last. Without one, the token's or the scheduler's job.

    Raises:
        OptionError: an argument cannot work.
    """
    given = {
        "store": None if store is None else _address("store", store),
        "agents": [agents] if isinstance(agents, str) else _arguments.texts("agents", () if agents is None else agents),
        "registry": _arguments.text("registry", registry),
        "token": _arguments.text("token", token),
        "ca": _arguments.path("ca", ca),
        "client_cert": _arguments.path("client_cert", client_cert),
        "client_key": _arguments.path("client_key", client_key),
        "job": _arguments.text("job", job),
        "run": _arguments.text("run", run),
    }
    with _speaker.lock:
        _speaker.given = {k: v for k, v in given.items() if v}


def saving(checkpoint: Path, step: int | None = None, *, holds: float = SAVING_HOLDS) -> None:
    """A checkpoint is being written: call it before the first byte.

    Agents let the job's step clock stand still until `committed`, until the job takes its next batch, or for `holds` seconds.
    """
    _say("saving", checkpoint, step=_step(step), holds=_arguments.seconds("holds", holds))


def committed(
    checkpoint: Path, step: int | None = None, *, world_size: int | None = None, settle: float | None = None
) -> None:
    """A checkpoint is whole: call it after the last byte of the last rank.

    It is looked at in the background, and said to be committed only if it is complete, with its identity, layout and files.

    Args:
        checkpoint: its folder or file.
        step: the training step that it is of. Default: the number at the end of its name.
        world_size: how many ranks saved it, for layouts that do not say (docs/checkpoints.md).
        settle: without it, for how many seconds files must stay as they are to be taken for all there are. Default 1.
    """
    _say(
        "committed",
        checkpoint,
        step=_step(step),
        world_size=_arguments.whole("world_size", world_size, 1),
        settle=_arguments.seconds("settle", settle),
    )


def hook_saves() -> Hooks:
    """Say `saving` and `committed` of every checkpoint that this process saves with torch or Megatron, whatever writes it.

    >>> lifecycle.hook_saves()  # once, at the start of the program  # doctest: +SKIP
    >>> with lifecycle.hook_saves():  # or around one save  # doctest: +SKIP
    ...     dcp.save(state, checkpoint_id="hdfs://ns/runs/7b/step-1000")

    Hooked are `save`, `save_state_dict` and `async_save` of torch.distributed.checkpoint and `save` of megatron.core.dist_checkpointing, where
    the program imports it; also where the save ends in the background. What a program has imported by its own name before
    (`from torch.distributed.checkpoint import save`) is not. The rank that coordinates the save speaks. A save that fails is not said to be
    committed; what is wrong with the telling is a line on standard error, not an error of the save.

    Returns:
        Hooks: `remove()` gives the functions back; the end of a `with` block does so too.
    """
    from stepahead import _saves  # which imports torch

    return _saves.hook()


def deleted(checkpoint: Path) -> None:
    """A checkpoint is gone, or will be at once."""
    _say("deleted", checkpoint)


def evaluation_scheduled(
    checkpoint: Path,
    evaluation: str = "",
    *,
    site: str = "",
    expected_in: float = 0,
    urgency: float = 0,
    confidence: float = 1,
    holds: float = 3600,
) -> None:
    """An evaluation will read a checkpoint, so that storage may bring it there before.

    Args:
        checkpoint: its folder or file; it need not be there yet.
        evaluation: a name, where a checkpoint has several.
        site: where the evaluation runs, by the name that the controller's operators gave the place.
        expected_in: in how many seconds it opens the checkpoint.
        urgency: from 0 to 1; larger is sooner.
        confidence: how likely it comes true, above 0 and at most 1.
        holds: for how many seconds this counts.
    """
    _say(
        "evaluation-scheduled",
        checkpoint,
        evaluation=_arguments.text("evaluation", evaluation),
        site=_arguments.text("site", site),
        expected_in=_arguments.seconds("expected_in", expected_in),
        urgency=_arguments.number("urgency", urgency),
        confidence=_arguments.number("confidence", confidence),
        holds=_arguments.seconds("holds", holds),
    )


def evaluation_cancelled(checkpoint: Path, evaluation: str = "") -> None:
    """A scheduled evaluation will not take place."""
    _say("evaluation-cancelled", checkpoint, evaluation=_arguments.text("evaluation", evaluation))


def evaluation_opened(checkpoint: Path, evaluation: str = "", *, site: str = "") -> None:
    """An evaluation begins to read a checkpoint."""
    _say(
        "evaluation-opened",
        checkpoint,
        evaluation=_arguments.text("evaluation", evaluation),
        site=_arguments.text("site", site),
    )


def evaluation_done(checkpoint: Path, evaluation: str = "") -> None:
    """An evaluation has its result, and reads the checkpoint no more."""
    _say("evaluation-done", checkpoint, evaluation=_arguments.text("evaluation", evaluation))


def evaluation_loaded(checkpoint: Path, evaluation: str = "") -> None:
    """An evaluation has read all that it needs of a checkpoint, and computes: so reading is told from slow benchmarks."""
    _say("evaluation-loaded", checkpoint, evaluation=_arguments.text("evaluation", evaluation))


def evaluation_result(
    checkpoint: Path, evaluation: str = "", *, metric: str = "", value: float | None = None, regression: bool = False
) -> None:
    """An evaluation has found something: call it for each metric.

    Args:
        checkpoint: its folder or file.
        evaluation: its name, where a checkpoint has several.
        metric: what was measured, where it is several things.
        value: the number; one that is not finite, such as the loss of a run that has diverged, is told as none.
        regression: it is worse than it may be. The first such result ends the time in which the regression was not known.
    """
    _say(
        "evaluation-result",
        checkpoint,
        evaluation=_arguments.text("evaluation", evaluation),
        metric=_arguments.text("metric", metric),
        value=_finite(value),
        regression=bool(regression),
    )


def evaluation_decided(checkpoint: Path, decision: str, evaluation: str = "") -> None:
    """What is done with the run after an evaluation: "continue", "rollback" or "stop"."""
    _say(
        "evaluation-decided",
        checkpoint,
        decision=_arguments.text("decision", decision),
        evaluation=_arguments.text("evaluation", evaluation),
    )


def loss_spike(checkpoint: Path, step: int | None = None, *, urgency: float = 1, holds: float = 3600) -> None:
    """The loss has jumped: what is asked for of this checkpoint, such as its evaluation, is as urgent as `urgency` says."""
    _say(
        "loss-spike",
        checkpoint,
        step=_step(step),
        urgency=_arguments.number("urgency", urgency),
        holds=_arguments.seconds("holds", holds),
    )


def starting(
    checkpoint: Path | None = None,
    *,
    ranks: int,
    ranks_per_host: int,
    expected_in: float = 0,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    expert_parallel: int = 1,
    shards: int | None = None,
    files: Mapping[Path, int] | None = None,
    confidence: float = 1,
    holds: float = 3600,
) -> None:
    """A job will start, and its ranks will read the same files at once: call it from whatever launches the job.

    Args:
        checkpoint: what it starts from. Which of its files how many ranks read is found out from its metadata and the arguments
            below (docs/checkpoints.md).
        ranks, ranks_per_host: the job's size.
        expected_in: in how many seconds it starts.
        tensor_parallel, pipeline_parallel, expert_parallel: how its ranks divide the model.
        shards: the data-parallel ranks that divide tensors (FSDP, ZeRO). Default: all of them; 1: each has a copy.
        files: other files that many ranks read, with the number of ranks.
        confidence: how likely it comes true, above 0 and at most 1.
        holds: for how many seconds this counts.
    """
    listed = {} if files is None else files
    if not isinstance(listed, Mapping):
        raise OptionError(f"files={files!r}: must be a dict of paths and numbers of ranks")
    if checkpoint is None and not listed:
        raise OptionError("starting: give a checkpoint, files, or both")
    ranks = _whole("ranks", ranks)
    _say(
        "start",
        checkpoint,
        ranks=ranks,
        ranks_per_host=_arguments.whole("ranks_per_host", ranks_per_host, 1, ranks),
        expected_in=_arguments.seconds("expected_in", expected_in),
        tensor=_whole("tensor_parallel", tensor_parallel),
        pipeline=_whole("pipeline_parallel", pipeline_parallel),
        expert=_whole("expert_parallel", expert_parallel),
        shards=_arguments.whole("shards", shards, 1),
        files={_address("files", path): _arguments.whole("files", n, 1, ranks) for path, n in listed.items()},
        confidence=_arguments.number("confidence", confidence),
        holds=_arguments.seconds("holds", holds),
    )


def loading(checkpoint: Path) -> Loading:
    """The ranks of this job begin to load the checkpoint that it starts from. Say so before they do, so that storage goes on to hold it ready.

    >>> with lifecycle.loading("hdfs://ns/runs/7b/step-1000"):  # doctest: +SKIP
    ...     dcp.load(state, checkpoint_id="hdfs://ns/runs/7b/step-1000")

    The end of the block says that all ranks have read it: it must come when they have, as at the end of `dcp.load`, or behind a barrier. A block that raises
    says nothing. `hook_loads()` does this by itself.
    """
    return Loading(_address("checkpoint", checkpoint), speaks=_speaks())


class Loading:
    """A checkpoint that is being loaded, until `done()` or the end of a `with` block."""

    def __init__(self, address: str, speaks: bool) -> None:
        self._address = address
        self._speaks = speaks
        self._began = time.monotonic()
        if speaks:
            _tell("opened", address, **_size())

    def done(self, *, seconds: Iterable[float] | None = None, bytes_read: int | None = None) -> None:
        """All ranks have read it, so that storage may give back what it held ready.

        Args:
            seconds: how long each of them took, where the caller has gathered that. Default: only that the last took until now.
            bytes_read: how many bytes one of them read. Default: not known.
        """
        took = [] if seconds is None else _arguments.numbers("seconds", seconds)
        median = statistics.median_low(took) if took else None
        count = _arguments.whole("bytes_read", bytes_read, 0)
        if self._speaks:
            self._speaks = False
            last = max(took, default=min(time.monotonic() - self._began, _LONGEST))
            _tell("read", self._address, median=median, last=last, bytes=count, **_size())

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.done()


def hook_loads() -> Hooks:
    """Say `loading`, and that all ranks are done, of every checkpoint that this process loads with torch or Megatron, whatever reads it.

    >>> lifecycle.hook_loads()  # once, at the start of the program  # doctest: +SKIP

    Hooked are `load` and `load_state_dict` of torch.distributed.checkpoint and `load` of megatron.core.dist_checkpointing, as of `hook_saves`. Where ranks load
    each by itself (`no_dist`), the first says that it begins, and nobody knows when the last is done. A load that fails says only that it began.

    Returns:
        Hooks: `remove()` gives the functions back; the end of a `with` block does so too.
    """
    from stepahead import _loads  # which imports torch

    return _loads.hook()


def ended(checkpoint: Path | None = None) -> None:
    """The run is over, however it ended: storage holds nothing ready for its start any more.

    Loaders with agents say so of their run when they are closed. Say it where a job ends, or where it did not come to its start.

    Args:
        checkpoint: something in the store whose agents are told. Default: what was spoken of last.
    """
    address = _speaker.last if checkpoint is None else _address("checkpoint", checkpoint)
    if not address and not _speaker.given.get("store"):
        raise OptionError("ended: nothing was said before: give a checkpoint, or a store with configure()")
    if _speaks():
        _tell("ended", address)


@dataclasses.dataclass(frozen=True)
class Told:
    """What became of what this process said so far."""

    done: bool
    """Nothing waits to be told."""
    told: int
    """An agent has it at least."""
    refused: int
    """No agent takes it: the token, the path, or the agents' version; standard error says which."""
    lost: int
    """No agent could be told, or there was nothing to tell: a checkpoint that is not complete."""


def told(timeout: float = 0) -> Told:
    """Wait at most `timeout` seconds until all that was said was told, and say what became of it."""
    seconds = _arguments.seconds("timeout", timeout) or 0
    with _speaker.lock:
        spoke = _speaker.spoke
    if not spoke:
        return Told(True, 0, 0, 0)
    until = time.monotonic() + seconds
    while True:
        left = max(until - time.monotonic(), 0.0) * 1000
        answer = json.loads(_binding.call("Told", int(min(left, _binding.SLICE_MILLIS))))
        if answer["done"] or left <= _binding.SLICE_MILLIS:
            return Told(answer["done"], answer["Told"], answer["Refused"], answer["Lost"])


def _step(step: int | None) -> int | None:
    return _arguments.whole("step", step, 0)


def _finite(value: Any) -> float | None:
    try:
        if not math.isfinite(value):
            return None
    except (TypeError, OverflowError):
        pass  # what it is not is said next
    return _arguments.number("value", value)


def _whole(name: str, value: int) -> int:
    number = _arguments.whole(name, value, 1, 2**31 - 1)
    if number is None:
        raise OptionError(f"{name}=None: must be a whole number")
    return number


def _speaks() -> bool:
    """Whether this process speaks for its job: alone, or as rank 0."""
    group = _group()
    return group is None or group.get_rank() == 0


def _size() -> dict[str, int]:
    """How large this job is, as far as this process knows."""
    group = _group()
    ranks = 1 if group is None else group.get_world_size()
    here = os.environ.get("LOCAL_WORLD_SIZE", "")
    return {"ranks": ranks, "ranks_per_host": min(max(int(here), 1), ranks) if here.isdecimal() else 1}


def _say(what: str, path: Path | None, **said: Any) -> None:
    """Say something, if this is rank 0."""
    address = "" if path is None else _address("checkpoint", path)
    if _speaks():
        _tell(what, address, **said)


def _tell(what: str, address: str, **said: Any) -> None:
    """Hand something to the native module, which tells the agents in the background."""
    text = _arguments.dumps({"what": what, "path": address, **{k: v for k, v in said.items() if v is not None}})
    first = address or next(iter(said.get("files") or {}), "")
    try:
        with _speaker.lock:
            _binding.call("Tell", _speaker.options(first), text)
            _speaker.spoke = True
            _speaker.last = first or _speaker.last
    except ForkError as error:
        _log.warning("%s of %s is not told: %s", what, address, error)


def _end() -> None:
    """Give what was said last a moment to be told."""
    if _speaker.spoke and _binding.alive():
        _binding.call("Told", 2000)
        _binding.call("Untell")


# Before non-daemon threads are joined, as loaders are closed.
threading._register_atexit(_end)  # type: ignore[attr-defined]
