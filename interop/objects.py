"""Reads and writes models in an object store with `lodstone`, at a server of the S3 protocol (moto) on loopback.

    objects.py LODSTONE GOLDEN WORK [COMMAND...]

LODSTONE is the command, GOLDEN the golden files of `formats`, WORK a directory for files. COMMAND runs first, with
`LODSTONE_OBJECT_STORE` set to a directory of a bucket: the tests of the crate `remote`, which include the conformance
tests of stores.

The server logs each request with the sizes of its bodies; `--stats` must report the same. It handles one request at a
time, since moto compares `If-None-Match` and stores an object in two steps.
"""

import collections
import filecmp
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "models"

Request = collections.namedtuple("Request", "method path query received sent status")

passed = failed = 0


class Logged:
    """An application that logs what it receives and sends."""

    def __init__(self, application):
        self.application, self.requests, self.lock = application, [], threading.Lock()
        self.pause = 0

    def __call__(self, environ, start_response):
        status = []

        def start(line, headers, *rest):
            status.append(int(line.split()[0]))
            return start_response(line, headers, *rest)

        received = int(environ.get("CONTENT_LENGTH") or 0)
        time.sleep(self.pause)
        with self.lock:
            body = b"".join(self.application(environ, start))
            sent = 0 if environ["REQUEST_METHOD"] == "HEAD" else len(body)
            self.requests.append(
                Request(
                    environ["REQUEST_METHOD"],
                    environ["PATH_INFO"],
                    environ.get("QUERY_STRING", ""),
                    received,
                    sent,
                    status[0],
                )
            )
        return [body]


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        pass


def check(name, condition, found=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {name}: {found}")


class Commands:
    """Runs `lodstone`, and compares its `--stats` with the log of the server."""

    def __init__(self, lodstone, log, environment):
        self.lodstone, self.log, self.environment = lodstone, log, environment

    def start(self, *arguments):
        arguments = [self.lodstone, *map(str, arguments), "--stats"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(arguments, env=self.environment, **pipes)

    def __call__(self, *arguments, status=0):
        self.log.requests.clear()
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        name = " ".join(map(str, arguments))
        check(name, process.returncode == status, f"exit status {process.returncode}: {err}")
        requests = list(self.log.requests)
        sent = sum(request.sent for request in requests)
        received = sum(request.received for request in requests)
        noun = "request" if len(requests) == 1 else "requests"
        expected = f"stats: {len(requests)} {noun}, {sent} bytes received, {received} bytes sent"
        check(f"{name} --stats", expected in err, f"expected {expected}: {err} {requests}")
        return out, requests


def safetensors(path, tensors):
    """Writes a file of float32 tensors, by name and number of elements."""
    header, offset = {}, 0
    for name, count in tensors:
        end = offset + 4 * count
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, (_, count) in enumerate(tensors):
            file.write(struct.pack("<f", number) * count)


def main():
    lodstone, golden, work, *command = sys.argv[1:]
    golden, work = pathlib.Path(golden), pathlib.Path(work)
    log = Logged(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, log, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    environment = {**os.environ, **keys, "AWS_REGION": "us-east-1"}
    environment |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket=BUCKET)
    if command:
        store = {"LODSTONE_OBJECT_STORE": f"s3://{BUCKET}/tests"}
        status = subprocess.run(command, env=environment | store).returncode
        check("the tests of the crate `remote`", status == 0, f"exit status {status}")
    run = Commands(lodstone, log, environment)
    reads(run, golden, work, client)
    writes(run, work, client)
    shards(run, golden, work, client)
    races(run, work, client)
    interrupts(run, work, client)
    server.shutdown()
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


def unfinished(client):
    return client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])


def keys_below(client, prefix):
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    # An object with a hidden name marks a directory that was created.
    return sorted(entry["Key"] for entry in found if not entry["Key"].endswith(".lodstone"))


def reads(run, golden, work, client):
    """Reads headers and requested ranges."""
    local = work / "model.safetensors"
    safetensors(local, [(f"layer.{number}.weight", 500_000) for number in range(40)])
    client.upload_file(str(local), BUCKET, "read/deep/model.safetensors")
    address = f"s3://{BUCKET}/read/deep/model.safetensors"

    out, requests = run("inspect", address, "--json")
    check("inspect takes a request", len(requests) == 1, requests)
    found = json.loads(out)
    check("inspect lists the tensors", len(found["tensors"]) == 40, found)
    check("the counts are in JSON", found["stats"]["requests"] == 1, found["stats"])
    check("only headers are read", requests[0].sent <= 64 << 10, requests)

    large = work / "large.safetensors"
    safetensors(large, [(f"layers.{number}.attention.weight", 10) for number in range(20_000)])
    client.upload_file(str(large), BUCKET, "read/large.safetensors")
    _, requests = run("inspect", f"s3://{BUCKET}/read/large.safetensors")
    check("a large header takes two requests", len(requests) <= 2, requests)

    out, requests = run("cat", address, "layer.7.weight", "--json")
    check("cat reads one tensor", sum(it.sent for it in requests) < 3_000_000, requests)
    check("cat takes two requests", len(requests) <= 2, requests)
    _, requests = run("diff", address, address)
    check("elements are read in large parts", len(requests) < 150, len(requests))
    changed = work / "changed.safetensors"
    data = bytearray(local.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    client.upload_file(str(changed), BUCKET, "read/changed.safetensors")
    run("diff", address, f"s3://{BUCKET}/read/changed.safetensors", status=1)
    run("scan", address)
    run("inspect", f"s3://{BUCKET}/read/none.safetensors", status=2)
    run("inspect", f"s3://{BUCKET}/read/deep")

    for path in sorted((golden / "torch").glob("*.pt"))[:6] + sorted((golden / "numpy").glob("*.npz"))[:3]:
        key = f"read/zip/{path.name}"
        client.upload_file(str(path), BUCKET, key)
        out, _ = run("inspect", f"s3://{BUCKET}/{key}", "--json")
        expected = json.loads(
            subprocess.run([run.lodstone, "inspect", path, "--json"], capture_output=True).stdout
        )
        found = json.loads(out)
        del found["stats"], found["path"], expected["path"]
        check(f"{path.name} is the same", found == expected, found)


def writes(run, work, client):
    """Streams a model from one place to another."""
    source, target = f"s3://{BUCKET}/read/deep/model.safetensors", f"s3://{BUCKET}/written"
    for name, options in [
        ("copy.safetensors", []),
        ("shards/model.safetensors", ["--max-shard-size", "20MB"]),
        ("arrays.npz", []),
        ("half.safetensors", ["--cast", "float16"]),
    ]:
        local = work / "written" / name
        local.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([run.lodstone, "convert", work / "model.safetensors", local, *options, "-q"], check=True)
        _, requests = run("convert", source, f"{target}/{name}", *options)
        check(f"{name}: elements are read in large parts", len(requests) < 150, len(requests))
        parts = [it for it in requests if "partNumber" in it.query]
        check(f"{name}: parts are small", all(it.received <= 16 << 20 for it in parts), parts)
        for path in sorted(local.parent.iterdir() if "/" in name else [local]):
            key = f"written/{path.relative_to(work / 'written')}"
            copy = work / "downloaded"
            client.download_file(BUCKET, key, str(copy))
            check(f"{key} has the same bytes", filecmp.cmp(path, copy, shallow=False))
    check("large files are uploaded in parts", len(parts) > 1, parts)
    check("no upload is unfinished", not unfinished(client), unfinished(client))

    run("convert", source, f"{target}/sealed/model.safetensors", "--seal")
    run("verify", f"{target}/sealed/model.safetensors")
    body = client.get_object(Bucket=BUCKET, Key="written/sealed/model.safetensors")["Body"].read()
    damaged = bytearray(body)
    damaged[-5] ^= 1
    client.put_object(Bucket=BUCKET, Key="written/sealed/model.safetensors", Body=bytes(damaged))
    run("verify", f"{target}/sealed/model.safetensors", status=1)


def upload(client, directory, prefix):
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(directory)}")


def download(client, prefix, directory):
    for key in keys_below(client, f"{prefix}/"):
        path = directory / key.removeprefix(f"{prefix}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(BUCKET, key, str(path))
    return directory


def files(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def shards(run, golden, work, client):
    """Reads distributed checkpoints, and divides them into other shards."""
    for name in ["torch_sharded/fsdp", "torch_sharded/dtensor-safetensors", "paddle_sharded/3.3.1/auto"]:
        local = golden / name
        there = f"s3://{BUCKET}/sharded/{name}"
        upload(client, local, f"sharded/{name}")
        run("inspect", there)
        run("scan", there)
        run("diff", local, there)
        allowed = ["--allow", "metadata"]
        run("convert", there, f"s3://{BUCKET}/joined/{name}/model.safetensors", *allowed)
        run("diff", local, f"s3://{BUCKET}/joined/{name}/model.safetensors")
        for kind in ["torch-distributed", "paddle-distributed", "safetensors"]:
            key = f"divided/{name}/{kind}"
            options = ["--shards", 3, "--to", kind, *allowed]
            run("checkpoint", "reshard", there, f"s3://{BUCKET}/{key}", *options)
            run("verify", f"s3://{BUCKET}/{key}")
            run("checkpoint", "reshard", there, f"s3://{BUCKET}/{key}", *options, status=2)
            here = work / "divided" / name / kind
            command = [run.lodstone, "checkpoint", "reshard", local, here, *options]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
            found = files(download(client, key, work / "downloaded-shards" / name / kind))
            check(f"{key} is as on disk", found == files(here), (sorted(found), sorted(files(here))))


def races(run, work, client):
    """Of several writers that must not replace a file, one writes it."""
    for name in ["model.safetensors", "small.npz"]:
        source = work / name
        if name.endswith("npz"):
            small = work / "tiny.safetensors"
            safetensors(small, [("x", 10)])
            source = small
        arguments = ("convert", source, f"s3://{BUCKET}/race/{name}", "--no-clobber")
        writers = [run.start(*arguments) for _ in range(5)]
        statuses = [writer.communicate(timeout=300) and writer.returncode for writer in writers]
        check(f"one writer of {name} wins", sorted(statuses) == [0, 2, 2, 2, 2], statuses)
    check("no upload of the others remains", not unfinished(client), unfinished(client))
    check("no file of the others remains", len(keys_below(client, "race/")) == 2)


def interrupts(run, work, client):
    """An interrupted write leaves nothing."""
    run.log.pause = 0.5
    arguments = ("convert", work / "model.safetensors", f"s3://{BUCKET}/interrupted/model.safetensors")
    process = run.start(*arguments)
    deadline = time.monotonic() + 60
    while not unfinished(client) and time.monotonic() < deadline:
        time.sleep(0.1)
    check("an upload has begun", unfinished(client))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    run.log.pause = 0
    check("the command ends", process.returncode == 2, err)
    check("its upload is aborted", not unfinished(client), unfinished(client))
    check("nothing is there", not keys_below(client, "interrupted/"))


if __name__ == "__main__":
    main()
