"""Opens the indexes of a dataset with pyarrow, DuckDB and polars; prints what each sees as JSON."""

import glob
import json
import os
import sys

import duckdb
import polars as pl
import pyarrow as pa

files = sorted(glob.glob(os.path.join(sys.argv[1], "*.arrow")))
t = pa.concat_tables([pa.ipc.open_file(pa.memory_map(f)).read_all().replace_schema_metadata() for f in files])
length = t["image.length"].to_pylist()
width = [w for w in t["image.width"].to_pylist() if w is not None]
arrow = {"samples": t.num_rows, "bytes": sum(length), "widest": max(width), "known": len(width)}

query = 'select count(*), sum("image.length"), max("image.width"), count("image.width") from t'
relation = duckdb.sql(query)
assert relation is not None
duck = dict(zip(arrow, map(int, relation.fetchall()[0]), strict=True))

p = pl.concat([pl.read_ipc(f) for f in files])
w = p["image.width"].drop_nulls()
polars = {"samples": p.height, "bytes": p["image.length"].sum(), "widest": w.max(), "known": w.len()}

print(json.dumps({"pyarrow": arrow, "duckdb": duck, "polars": polars, "keys": t["key"].to_pylist()}))
