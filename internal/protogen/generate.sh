#!/bin/sh
# Generates the Go code of every .proto file in this repository, beside the file.
#
#   internal/protogen/generate.sh           write the code
#   internal/protogen/generate.sh --check   write it elsewhere and compare: exit 1 if what is committed differs
#
# The compiler is the one of the Python package grpcio-tools (requirements/test.txt pins it), the two
# plugins are the tools of go.mod: the same input gives the same output on every machine. PYTHON names
# the interpreter that has grpcio-tools; it defaults to .venv's.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
protos="agent/fetch/fetchpb/fetch.proto controller/controllerpb/controller.proto hints/hintspb/hints.proto
$(ls store/hdfs/hproto/*.proto)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -c 'import grpc_tools' 2>/dev/null || {
    echo "generate.sh: $python has no grpcio-tools: run 'make setup', or set PYTHON" >&2
    exit 3
}
go build -o "$work/bin/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

mkdir "$work/out"
for proto in $protos; do
    PATH="$work/bin:$PATH" "$python" -m grpc_tools.protoc -I . \
        --go_out="$work/out" --go_opt=paths=source_relative \
        --go-grpc_out="$work/out" --go-grpc_opt=paths=source_relative "$proto"
done

status=0
for made in $(cd "$work/out" && find . -name '*.go' | sort); do
    if [ "${1:-}" != --check ]; then
        cp "$work/out/$made" "$made"
    elif ! diff -u "$made" "$work/out/$made"; then
        echo "generate.sh: $made is not what its .proto gives: run internal/protogen/generate.sh and commit" >&2
        status=1
    fi
done
exit $status
