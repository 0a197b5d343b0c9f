// The way to the server: its key, its errors in its own words, and its streams.
class ServerError extends Error {
  constructor(error, status) {
    super(error.message);
    Object.assign(this, { status, code: error.code, param: error.param, pointer: error.pointer });
  }
}

const connection = {
  get key() {
    return sessionStorage.getItem("sureact.key") || "";
  },
  set key(value) {
    if (value) sessionStorage.setItem("sureact.key", value);
    else sessionStorage.removeItem("sureact.key");
  },
  onKeyWanted: () => {},

  // Return the answer to a request; without a body it is a GET.
  async ask(path, body, signal) {
    const headers = {};
    if (connection.key) headers.authorization = `Bearer ${connection.key}`;
    if (body) headers["content-type"] = "application/json";
    const method = body ? "POST" : "GET";
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError({ message: "The server cannot be reached." }, 0);
    }
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({}));
    const error = new ServerError(told.error || { message: `The server answered ${answer.status}.` }, answer.status);
    if (error.status === 401) connection.onKeyWanted(error);
    throw error;
  },

  async json(path, body, signal) {
    return (await connection.ask(path, body, signal)).json();
  },

  // Yield the objects of a stream of events. An error among them is thrown.
  async *events(path, body, signal) {
    const answer = await connection.ask(path, { ...body, stream: true }, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new ServerError({ message: "The answer broke off." }, answer.status);
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
        if (data === "[DONE]") return;
        const told = data ? JSON.parse(data) : {};
        if (told.error) throw new ServerError(told.error, answer.status);
        if (data) yield told;
      }
    }
  },
};

// Show an error as the server words it, with a button to try again where that makes sense.
function faultBox(error, tryAgain) {
  const box = element("div", "fault", element("p", "", error.message));
  box.setAttribute("role", "alert");
  const where = [error.pointer && `at ${error.pointer}`, error.param && `field ${error.param}`, error.code];
  if (where.some(Boolean)) box.append(element("p", "numbers", joined(...where)));
  if (tryAgain) {
    const button = element("button", "", "Try again");
    button.type = "button";
    button.addEventListener("click", () => {
      box.remove();
      tryAgain();
    });
    box.append(button);
  }
  return box;
}

// How fast tokens come.
class Meter {
  static LEAST_MS = 20; // what came faster came in one read, which tells how fast the way is

  constructor() {
    this.began = performance.now();
  }

  // A token came. Where the time in between does not tell how fast they are, only the first is noted.
  note(isOnlyFirst = false) {
    const now = performance.now();
    this.first ??= now;
    this.last = isOnlyFirst ? this.first : now;
  }

  text(usage, ...others) {
    const parts = [];
    if (usage) {
      const count = usage.completion_tokens;
      parts.push(`${count} token${count === 1 ? "" : "s"}`);
      if (count > 1 && this.last - this.first >= Meter.LEAST_MS) {
        parts.push(`${(((count - 1) * 1000) / (this.last - this.first)).toFixed(1)} tokens/s`);
      }
      parts.push(`${usage.prompt_tokens_details.cached_tokens} of ${usage.prompt_tokens} prompt tokens cached`);
    }
    if (this.first !== undefined) parts.push(`first after ${seconds((this.first - this.began) / 1000)}`);
    const pieces = [...parts, ...others].filter(Boolean);
    return joined(...pieces.map((piece) => piece.replaceAll(" ", "\u00a0"))); // lines break between them
  }
}
