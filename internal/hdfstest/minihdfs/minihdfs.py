"""A real HDFS on this machine for programs in Python: the command minihdfs, started and told what to do."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
from typing import Any


class MiniHdfs:
    """A cluster that runs until it is closed or this process ends; the options are those of `minihdfs --help`.

    `url` is its root, `user` who may write below /user, `conf` the folder for HADOOP_CONF_DIR, `kerberos` None or the
    realm, `class_path` Hadoop's own. What Hadoop logs goes to `log`, if one is given, else to our standard error.
    """

    def __init__(self, program: pathlib.Path, *options: str, log: pathlib.Path | None = None) -> None:
        self._log = log
        with contextlib.ExitStack() as files:
            errors = files.enter_context(log.open("wb")) if log else None
            self._process = subprocess.Popen(
                [program, "--json", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        try:
            hello = self._answer()
        except BaseException:
            self._process.kill()
            raise
        self.url: str = hello["url"]
        self.user: str = hello["user"]
        self.conf: str = hello["conf"]
        self.class_path: str = hello["classPath"]
        self.kerberos: dict[str, Any] | None = hello["kerberos"]

    def environment(self, user: str = "") -> dict[str, str]:
        """What a program needs to read and write as a user, by default `self.user`."""
        user = user or self.user
        env = {"HADOOP_CONF_DIR": self.conf, "HADOOP_USER_NAME": user}
        if self.kerberos:
            env |= {"KRB5_CONFIG": self.kerberos["krb5Conf"], "KRB5_CLIENT_KTNAME": self.kerberos["keytabs"][user]}
        return env

    def do(self, op: str, **args: Any) -> Any:
        """Run a command (the classes in java/hdfstest whose names end in Commands list them) and return its result."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"op": op, "args": args}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            where = f"; its log is {self._log}" if self._log else ""
            raise RuntimeError(f"HDFS: {op}: {answer['error']}{where}")
        return answer["result"]

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            said = f"; the end of {self._log}:\n{self._log.read_text()[-3000:]}" if self._log else ""
            raise RuntimeError(f"HDFS has ended{said}")
        answer: dict[str, Any] = json.loads(line)
        return answer
