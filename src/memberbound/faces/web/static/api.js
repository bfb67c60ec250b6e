// Talking to the server that served this page, and to nobody else.

/** What the server refused, in its own sentence. */
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const GONE = "The server does not answer. Is “memberbound serve” still running?";

function sentence(body, status) {
  if (body && typeof body.error === "string") return body.error;
  if (status === 429) return "The server is busy with other calculations. Try again in a moment.";
  return `The server answered with status ${status}.`;
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refusal(GONE, 0);
  }
  const text = await answer.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    throw new Refusal(`The server's answer cannot be read (status ${answer.status}).`, answer.status);
  }
  if (!answer.ok) throw new Refusal(sentence(body, answer.status), answer.status);
  return body;
}

/** GET a JSON answer. */
export const get = (path, signal) => asked(path, { signal });
/** DELETE something of ours. */
export const remove = (path) => asked(path, { method: "DELETE" });
/** POST a JSON body. */
export const post = (path, body, signal) =>
  asked(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
    signal,
  });

/** Send a file as it is, with the encoding or the sheet to read; `progress` is called with a share between 0 and 1, `signal` stops it. */
export function upload(file, { encoding, sheet }, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const query = new URLSearchParams({ name: file.name, encoding, sheet });
    request.open("POST", `/api/files?${query}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    });
    request.addEventListener("load", () => {
      let body = null;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        body = null;
      }
      if (request.status >= 200 && request.status < 300 && body) resolve(body);
      else reject(new Refusal(sentence(body, request.status), request.status));
    });
    request.addEventListener("error", () => reject(new Refusal(GONE, 0)));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
