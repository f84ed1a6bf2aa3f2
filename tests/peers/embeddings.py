"""The embedding services' peer: OpenAI and Gemini embeddings with their batch jobs, and a model hub, on one loopback port.

It is strict: a request that the real services would refuse is refused here. Vectors are those of `BagOfWords`, so that a test
can compute what it must get. What goes wrong is told before: `refuse_next`, `spoil`, `drop_next`, `jobs_end_as`, `fail_keys`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from memory.embedding.engines.bag_of_words import BagOfWords
from tests.peers.failing import failing
from tests.peers.mood import Mood, today

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

DIMS = 768
KEY = "good-key"
GEMINI_TASKS = {"RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"}


@dataclass
class Job:
    """One batch job, of either service."""

    name: str
    token: str
    model: str
    input_file: str
    polls: int = 0
    status: str = "running"
    output_file: str | None = None
    error_file: str | None = None


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any


@dataclass
class EmbeddingPeer:
    """The state of the peer, and what a test may ask of it."""

    url: str = ""
    mood: Mood = field(default_factory=today)
    keys: set[str] = field(default_factory=lambda: {KEY})
    seen: list[Seen] = field(default_factory=list)
    refusals: list[tuple[int, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    page: tuple[int, str] | None = None
    """Status and HTML of every answer, where it is none of the API's."""
    drops: int = 0
    spoilt: dict[str, str] = field(default_factory=dict)
    spoil_all: str = ""
    dims: int = DIMS
    delay: float = 0.0
    base64_only_when_asked: bool = True
    jobs: dict[str, Job] = field(default_factory=dict)
    polls_until_done: int = 2
    jobs_end_as: str = "completed"
    fail_keys: set[str] = field(default_factory=set)
    lose_answer_to_create: bool = False
    cut_results_after: int | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    hub: dict[str, bytes] = field(default_factory=dict)
    hub_cut_after: list[int] = field(default_factory=list)
    hub_sha: dict[str, str] = field(default_factory=dict)
    hub_ranges: list[str] = field(default_factory=list)

    @property
    def openai(self) -> str:
        return f"{self.url}/v1"

    @property
    def gemini(self) -> str:
        return f"{self.url}/v1beta"

    def refuse_next(self, status: int, *, times: int = 1, headers: dict[str, str] | None = None, **error: Any) -> None:
        """Answer the next embedding calls with an error."""
        self.refusals += [(status, headers or {}, {"error": {"message": "told to fail", **error}})] * times

    def embedding_calls(self) -> list[Seen]:
        """Return the direct embedding calls."""
        return [s for s in self.seen if s.path.endswith(("/embeddings", ":embedContent", ":batchEmbedContents"))]

    def vector(self, text: str, dims: int) -> list[float]:
        """Return the vector for a text: not of unit length, so that a client that forgets to scale is found out."""
        kind = self.spoilt.get(text, self.spoil_all)
        if kind == "zero":
            return [0.0] * dims
        if kind == "nan":
            return [float("nan")] * dims
        if kind == "short":
            return [1.0] * (dims - 1)
        return [3 * x for x in BagOfWords(dims=dims).vector_of(text)]


def _error(code: int, message: str, /, **more: Any) -> web.Response:
    return web.json_response({"error": {"message": message, **more}}, status=code)


async def _note(peer: EmbeddingPeer, request: web.Request) -> None:
    body: Any = None
    if request.content_type == "application/json" and request.can_read_body:
        body = await request.json()
    headers = {name.lower(): value for name, value in request.headers.items()}
    peer.seen.append(Seen(request.method, request.path, request.query_string, headers, body))


def _told_to_fail(peer: EmbeddingPeer, request: web.Request) -> web.Response | None:
    if peer.page is not None:
        return web.Response(status=peer.page[0], text=peer.page[1], content_type="text/html")
    if peer.drops:
        peer.drops -= 1
        assert request.transport is not None
        request.transport.close()
        return web.Response()
    if peer.refusals:
        status, headers, body = peer.refusals.pop(0)
        return web.json_response(body, status=status, headers=headers)
    return None


def _pack(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _openai_body_error(body: Any) -> str | None:
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not 1 <= len(texts) <= 2048 or not all(isinstance(t, str) and t for t in texts):
        return "'$.input' is invalid"
    if sum(len(t) for t in texts) // 4 > 300_000 or any(len(t) // 4 > 8191 for t in texts):
        return "maximum context length is 8192 tokens"
    if body.get("encoding_format", "float") not in {"float", "base64"}:
        return "encoding_format is invalid"
    unknown = set(body) - {"model", "input", "encoding_format", "dimensions", "user"}
    return f"Unrecognized request arguments: {unknown}" if unknown else None


def _openai_answer(peer: EmbeddingPeer, body: dict[str, Any]) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [peer.vector(text, body.get("dimensions", peer.dims)) for text in texts]
    packed = body.get("encoding_format") == "base64" and peer.base64_only_when_asked
    data = [{"object": "embedding", "index": i, "embedding": _pack(v) if packed else v} for i, v in enumerate(vectors)]
    data.reverse()  # the index counts, not the place
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    found: dict[str, Any] = peer.mood.more({"object": "list", "model": body["model"], "data": data, "usage": usage})
    return found


class OpenAISide:
    """`/v1`: embeddings, files, batches."""

    def __init__(self, peer: EmbeddingPeer) -> None:
        self.peer = peer
        self.uploads = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/embeddings", self.embeddings),
            web.post("/v1/files", self.upload),
            web.get("/v1/files/{id}/content", self.content),
            web.delete("/v1/files/{id}", self.delete),
            web.post("/v1/batches", self.create),
            web.get("/v1/batches", self.list),
            web.get("/v1/batches/{id}", self.get),
            web.post("/v1/batches/{id}/cancel", self.cancel),
        ]

    def _locked(self, request: web.Request) -> web.Response | None:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key not in self.peer.keys:
            return _error(401, "Incorrect API key provided", type="invalid_request_error", code="invalid_api_key")
        return None

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        await asyncio.sleep(self.peer.delay)
        await self.peer.mood.late()
        body = await request.json()
        if problem := _openai_body_error(body):
            return _error(400, problem, type="invalid_request_error")
        return web.Response(text=json.dumps(_openai_answer(self.peer, body)), content_type="application/json")

    async def upload(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        form = await request.post()
        if form.get("purpose") != "batch" or not isinstance(form.get("file"), web.FileField):
            return _error(400, "a file and purpose=batch are required")
        self.uploads += 1
        name = f"file-{self.uploads}"
        content: bytes = form["file"].file.read()  # type: ignore[union-attr]
        self.peer.files[name] = content
        return web.json_response(
            {
                "id": name,
                "object": "file",
                "bytes": len(content),
                "created_at": 1,
                "filename": "x",
                "purpose": "batch",
                "status": "ok",
            }
        )

    async def content(self, request: web.Request) -> web.StreamResponse:
        await _note(self.peer, request)
        if (refusal := self._locked(request)) is not None:
            return refusal
        return await _send_file(self.peer, request, request.match_info["id"])

    async def delete(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        gone = self.peer.files.pop(request.match_info["id"], None)
        if gone is None:
            return _error(404, "No such File object")
        return web.json_response({"id": request.match_info["id"], "object": "file", "deleted": True})

    async def create(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        body = await request.json()
        if body.get("endpoint") != "/v1/embeddings" or body.get("completion_window") != "24h":
            return _error(400, "endpoint or completion_window is invalid")
        lines = [json.loads(line) for line in self.peer.files[body["input_file_id"]].splitlines()]
        ids = [line["custom_id"] for line in lines]
        if len(ids) > 50_000 or len(set(ids)) != len(ids) or any(line["url"] != "/v1/embeddings" for line in lines):
            return _error(400, "the input file is invalid")
        job = Job(
            f"batch_{len(self.peer.jobs)}", body["metadata"]["homebody_batch"], lines[0]["body"]["model"], body["input_file_id"]
        )
        self.peer.jobs[job.name] = job
        _maybe_lose_the_answer(self.peer, request)
        return web.json_response(self._told(job))

    async def list(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        data = [self._told(job) for job in reversed(self.peer.jobs.values())]
        return web.json_response({"object": "list", "data": data, "has_more": False})

    async def get(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        job = self.peer.jobs[request.match_info["id"]]
        _work(self.peer, job, self._answers)
        return web.json_response(self._told(job))

    async def cancel(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        job = self.peer.jobs[request.match_info["id"]]
        if job.status == "running":
            job.status = "cancelling"
        return web.json_response(self._told(job))

    def _answers(self, line: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        body, problem = line["body"], _openai_body_error(line["body"])
        failed = line["custom_id"] in self.peer.fail_keys or problem is not None
        answer = {"error": {"message": problem or "told to fail"}} if failed else _openai_answer(self.peer, body)
        response = {"status_code": 400 if failed else 200, "request_id": "r", "body": answer}
        return {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}, failed

    def _told(self, job: Job) -> dict[str, Any]:
        status = "in_progress" if job.status == "running" else job.status
        return {
            "id": job.name,
            "object": "batch",
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
            "created_at": 1,
            "input_file_id": job.input_file,
            "status": status,
            "output_file_id": job.output_file,
            "error_file_id": job.error_file,
            "metadata": {"homebody_batch": job.token},
            "errors": {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}
            if status == "failed"
            else None,
        }


def _maybe_lose_the_answer(peer: EmbeddingPeer, request: web.Request) -> None:
    if peer.lose_answer_to_create:
        peer.lose_answer_to_create = False
        assert request.transport is not None
        request.transport.close()


def _work(peer: EmbeddingPeer, job: Job, answer: Any) -> None:
    """Let a job get on by one poll."""
    if job.status == "cancelling":
        _finish(peer, job, answer, "cancelled", share=0.5)
    elif job.status == "running":
        job.polls += 1
        if job.polls >= peer.polls_until_done:
            _finish(peer, job, answer, peer.jobs_end_as, share=1.0 if peer.jobs_end_as == "completed" else 0.5)


def _finish(peer: EmbeddingPeer, job: Job, answer: Any, status: str, *, share: float) -> None:
    job.status = status
    if status == "failed":
        return
    lines = [json.loads(line) for line in peer.files[job.input_file].splitlines()]
    good: list[str] = []
    bad: list[str] = []
    for line in reversed(lines[: int(len(lines) * share)]):  # in no particular order
        told, failed = answer(line)
        (bad if failed else good).append(json.dumps(told))
    for kind, told_lines in (("output", good), ("error", bad)):
        if told_lines:
            name = f"{job.name.replace('/', '-')}-{kind}"
            peer.files[name] = ("\n".join(told_lines) + "\n").encode()
            setattr(job, f"{kind}_file", name)


async def _send_file(peer: EmbeddingPeer, request: web.Request, name: str) -> web.StreamResponse:
    content = peer.files.get(name)
    if content is None:
        return _error(404, "No such file")
    response = web.StreamResponse()
    response.content_length = len(content)
    await response.prepare(request)
    if peer.cut_results_after is not None:
        await response.write(content[: peer.cut_results_after])
        peer.cut_results_after = None
        assert request.transport is not None
        request.transport.close()
        return response
    await response.write(content)
    return response


class GeminiSide:
    """`/v1beta`: embedContent, batchEmbedContents, files, asynchronous batches."""

    def __init__(self, peer: EmbeddingPeer) -> None:
        self.peer = peer
        self.uploads: dict[str, str] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1beta/models/{model}:embedContent", self.one),
            web.post("/v1beta/models/{model}:batchEmbedContents", self.many),
            web.post("/v1beta/models/{model}:asyncBatchEmbedContent", self.create),
            web.post("/upload/v1beta/files", self.begin_upload),
            web.post("/upload/put/{name}", self.upload),
            web.get("/download/v1beta/files/{name}:download", self.download),
            web.get("/v1beta/batches", self.list),
            web.get("/v1beta/batches/{name}", self.get),
            web.post("/v1beta/batches/{name}:cancel", self.cancel),
            web.delete("/v1beta/batches/{name}", self.delete_job),
            web.delete("/v1beta/files/{name}", self.delete_file),
        ]

    def _locked(self, request: web.Request) -> web.Response | None:
        if "key" in request.query or request.headers.get("x-goog-api-key") not in self.peer.keys:
            info = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
            return _error(
                400, "API key not valid. Please pass a valid API key.", code=400, status="INVALID_ARGUMENT", details=info
            )
        return None

    def _problem(self, request: Any, model: str) -> str | None:
        unknown = set(request) - {"model", "content", "taskType", "outputDimensionality", "title"}
        if unknown:
            return f"Unknown name: {unknown}"
        if request.get("model") != f"models/{model}":
            return "model does not match"
        if request.get("taskType") not in GEMINI_TASKS or not request["content"]["parts"][0]["text"]:
            return "invalid content or task"
        return None

    def _embedding(self, request: dict[str, Any]) -> dict[str, Any]:
        text = request["content"]["parts"][0]["text"]
        return {"values": self.peer.vector(text, request.get("outputDimensionality", 3072))}

    async def one(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        body = await request.json()
        if problem := self._problem(body, request.match_info["model"]):
            return _error(400, problem)
        await self.peer.mood.late()
        told = self.peer.mood.more({"embedding": self._embedding(body)})
        return web.Response(text=json.dumps(told), content_type="application/json")

    async def many(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        requests = (await request.json())["requests"]
        if not 1 <= len(requests) <= 100:
            return _error(400, "at most 100 requests can be in one batch")
        for one in requests:
            if problem := self._problem(one, request.match_info["model"]):
                return _error(400, problem)
        await self.peer.mood.late()
        told = self.peer.mood.more({"embeddings": [self._embedding(one) for one in requests]})
        return web.Response(text=json.dumps(told), content_type="application/json")

    async def begin_upload(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        if request.headers.get("x-goog-upload-command") != "start":
            return _error(400, "upload must be started")
        name = f"f{len(self.uploads)}"
        self.uploads[name] = request.headers["x-goog-upload-header-content-length"]
        return web.json_response({}, headers={"x-goog-upload-url": f"{self.peer.url}/upload/put/{name}"})

    async def upload(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        name = request.match_info["name"]
        content = await request.read()
        if request.headers.get("x-goog-upload-command") != "upload, finalize" or str(len(content)) != self.uploads[name]:
            return _error(400, "the upload is not what was announced")
        self.peer.files[f"files/{name}"] = content
        return web.json_response({"file": {"name": f"files/{name}", "state": "ACTIVE"}})

    async def download(self, request: web.Request) -> web.StreamResponse:
        await _note(self.peer, request)
        if (refusal := self._locked(request)) is not None:
            return refusal
        if request.query.get("alt") != "media":
            return _error(400, "alt=media is required")
        return await _send_file(self.peer, request, request.match_info["name"])

    async def create(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        batch = (await request.json())["batch"]
        source = batch["inputConfig"]["fileName"]
        for line in self.peer.files[source].splitlines():
            if problem := self._problem(json.loads(line)["request"], request.match_info["model"]):
                return _error(400, problem)
        job = Job(f"batches/b{len(self.peer.jobs)}", batch["displayName"], request.match_info["model"], source)
        self.peer.jobs[job.name] = job
        _maybe_lose_the_answer(self.peer, request)
        return web.json_response(self._told(job))

    async def list(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        return web.json_response({"operations": [self._told(job) for job in self.peer.jobs.values()]})

    async def get(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        if (refusal := self._locked(request) or _told_to_fail(self.peer, request)) is not None:
            return refusal
        job = self.peer.jobs[f"batches/{request.match_info['name']}"]
        _work(self.peer, job, self._answer)
        return web.json_response(self._told(job))

    async def cancel(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        self.peer.jobs[f"batches/{request.match_info['name']}"].status = "cancelling"
        return web.json_response({})

    async def delete_job(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        del self.peer.jobs[f"batches/{request.match_info['name']}"]
        return web.json_response({})

    async def delete_file(self, request: web.Request) -> web.Response:
        await _note(self.peer, request)
        name = request.match_info["name"]
        if self.peer.files.pop(f"files/{name}", None) is None and self.peer.files.pop(name, None) is None:
            return _error(404, "no such file")
        return web.json_response({})

    def _answer(self, line: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        if line["key"] in self.peer.fail_keys:  # Gemini has no error file: an error stands among the answers
            return {"key": line["key"], "error": {"code": 13, "message": "told to fail"}}, False
        return {"key": line["key"], "response": {"embedding": self._embedding(line["request"])}}, False

    def _told(self, job: Job) -> dict[str, Any]:
        state = {"running": "RUNNING", "cancelling": "RUNNING", "completed": "SUCCEEDED"}.get(job.status, job.status.upper())
        done = job.status not in {"running", "cancelling"}
        batch = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.EmbedContentBatch",
            "name": job.name,
            "displayName": job.token,
            "model": f"models/{job.model}",
            "state": f"BATCH_STATE_{state}",
            "inputConfig": {"fileName": job.input_file},
        }
        told: dict[str, Any] = {"name": job.name, "metadata": batch, "done": done}
        if job.output_file is not None:
            told["response"] = {"responsesFile": f"files/{job.output_file}"}
        if job.status == "failed":
            told["error"] = {"code": 8, "message": "quota exceeded"}
        return told


class HubSide:
    """A model hub: `/owner/repo/resolve/revision/file` leads on to a store that knows Range and If-Range."""

    def __init__(self, peer: EmbeddingPeer) -> None:
        self.peer = peer

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/{owner}/{repo}/resolve/{revision}/{path:.+}", self.resolve),  # HEAD comes along
            web.get("/store/{path:.+}", self.store),
        ]

    async def resolve(self, request: web.Request) -> web.Response:
        path = "/".join(request.match_info[part] for part in ("owner", "repo", "path"))
        content = self.peer.hub.get(path)
        if content is None:
            return web.Response(status=404, text="Entry not found")
        sha = self.peer.hub_sha.get(path, hashlib.sha256(content).hexdigest())
        headers = {"location": f"/store/{path}", "x-linked-size": str(len(content)), "x-linked-etag": f'"{sha}"'}
        return web.Response(status=302, headers=headers)

    async def store(self, request: web.Request) -> web.StreamResponse:
        content = self.peer.hub[request.match_info["path"]]
        etag = f'"{hashlib.md5(content).hexdigest()}"'  # noqa: S324 - a tag, not a secret
        asked = request.headers.get("range", "")
        self.peer.hub_ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if request.headers.get("if-range", etag) != etag:
            start = 0
        if start >= len(content):
            return web.Response(status=416)
        response = web.StreamResponse(status=206 if start else 200, headers={"etag": etag})
        if start:
            response.headers["content-range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        response.content_length = len(content) - start
        await response.prepare(request)
        if self.peer.hub_cut_after:
            await response.write(content[start : start + self.peer.hub_cut_after.pop(0)])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(content[start:])
        return response


def _words(request: web.Request, status: int) -> dict[str, Any]:
    if request.path.startswith("/v1/"):
        message = f"The server had an error while processing your request ({status})."
        return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}
    kind = "INTERNAL" if status == 500 else "UNAVAILABLE"
    return {"error": {"code": status, "message": "The model is overloaded. Please try again later.", "status": kind}}


def application(peer: EmbeddingPeer) -> web.Application:
    """Return the peer as an application."""
    app = web.Application(client_max_size=256 << 20, middlewares=[failing(lambda _: peer.mood, _words)])
    for side in (OpenAISide(peer), GeminiSide(peer), HubSide(peer)):
        app.add_routes(side.routes())
    return app


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[EmbeddingPeer]:
    """Serve a peer on a port of its own."""
    peer = EmbeddingPeer()
    runner = web.AppRunner(application(peer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    peer.url = f"http://{host}:{port}"
    yield peer
    await runner.cleanup()
