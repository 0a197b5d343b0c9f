// One answer of the model, from its deltas.
class ChatAnswer {
  constructor(name) {
    this.content = "";
    this.reasoning = "";
    this.calls = [];
    this.meter = new Meter();
    this.prose = new Prose();
    this.thoughts = new Prose();
    this.thinking = element("details", "reasoning", element("summary", "", "Reasoning"), this.thoughts.node);
    this.thinking.hidden = true;
    this.callBox = element("div", "");
    this.numbers = element("div", "numbers");
    this.body = element("div", "body cursor", this.thinking, this.prose.node, this.callBox);
    this.node = element("li", "message", element("div", "label", name), this.body, this.numbers);
    this.node.setAttribute("aria-busy", "true");
    this.render = throttled(() => growing(() => this.show()));
  }

  add({ choices, usage }) {
    if (usage) this.usage = usage;
    for (const { delta, finish_reason: finishReason } of choices) {
      const hasCalls = Boolean(delta.tool_calls || this.calls.length); // many tokens of theirs come as one piece
      if (delta.content || delta.reasoning_content || hasCalls) this.meter.note(hasCalls);
      this.content += delta.content || "";
      this.reasoning += delta.reasoning_content || "";
      for (const { index, id, function: { name, arguments: text } } of delta.tool_calls || []) {
        this.calls[index] ??= { id, type: "function", function: { name, arguments: "" } };
        this.calls[index].function.arguments += text;
      }
      this.finishReason = finishReason || this.finishReason;
    }
    this.render();
  }

  show() {
    this.prose.set(this.content);
    this.thoughts.set(this.reasoning);
    this.thinking.hidden = !this.reasoning;
    this.thinking.firstChild.textContent = this.content || this.calls.length || !this.isOpen ? "Reasoning" : "Reasoning \u2026";
    this.calls.forEach((call, index) => {
      const text = `${call.function.name} ${call.function.arguments}`;
      const box = this.callBox.children[index] || element("div", "call", part("Call", element("pre", "text")));
      if (!box.parentNode) this.callBox.append(box);
      box.querySelector(".text").textContent = visible(text);
    });
    this.numbers.textContent = this.isOpen ? this.meter.text() : this.meter.text(this.usage, this.ending);
  }

  get isOpen() {
    return this.ending === undefined;
  }

  get isEmpty() {
    return !(this.content || this.reasoning || this.calls.length);
  }

  end(ending) {
    this.ending = ending;
    this.render.now();
    this.body.classList.remove("cursor");
    this.node.removeAttribute("aria-busy");
  }

  // What the history of the conversation keeps; calls that were broken off are none.
  message(isWhole) {
    const message = { role: "assistant", content: this.content };
    if (this.reasoning) message.reasoning_content = this.reasoning;
    if (isWhole && this.calls.length) message.tool_calls = this.calls;
    return message;
  }
}

const ENDINGS = { stop: "ended by itself", length: "out of tokens", tool_calls: "waits for its calls" };
const SUGGESTIONS = [
  "Write a Python function that merges two sorted lists.",
  "Explain in two sentences what a context window is.",
  "Translate into French: The train leaves at noon.",
];
const EXAMPLE_TOOLS = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city, today.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
}];

function startChat(server) {
  const at = (id) => document.getElementById(`chat-${id}`);
  const messages = document.getElementById("messages");
  const [tools, toolsFault, clear] = [at("tools"), at("tools-fault"), at("clear")];
  let history = [];

  function settings() {
    const [temperature, maxTokens] = ["temperature", "max-tokens"].map((id) => readNumber(at(id)));
    return { temperature, max_tokens: maxTokens, tools: readJson(tools) };
  }

  function request() {
    const system = at("system").value.trim();
    const told = system ? [{ role: "system", content: system }] : [];
    return { messages: [...told, ...history], ...settings(), stream_options: { include_usage: true } };
  }

  function showState() {
    const isEmpty = !messages.children.length;
    at("empty").hidden = !isEmpty;
    clear.hidden = isEmpty;
  }

  function append(node) {
    growing(() => messages.append(node));
    showState();
  }

  async function answer(signal) {
    const asked = history; // Clear begins another, which this answer is no part of
    let body;
    try {
      body = request();
    } catch (error) {
      document.querySelector("#chat .settings").open = true;
      const place = element("li", "message");
      place.append(faultBox({ message: error.message, param: "tools" }, () => (place.remove(), composer.run(answer))));
      return void append(place);
    }
    const shown = new ChatAnswer(server.model);
    append(shown.node);
    try {
      for await (const chunk of connection.events("v1/chat/completions", body, signal)) shown.add(chunk);
      shown.end(ENDINGS[shown.finishReason] || shown.finishReason);
    } catch (error) {
      shown.end(signal.aborted ? "stopped" : "broke off");
      if (!signal.aborted && history === asked) fail(shown, error);
    }
    if (history !== asked) return;
    const isWhole = shown.finishReason !== undefined;
    const message = shown.message(isWhole);
    if (message.content || message.tool_calls) history.push(message);
    if (message.tool_calls) askResults(shown, message.tool_calls);
  }

  function fail(shown, error) {
    const place = shown.isEmpty ? element("li", "message") : shown.node;
    if (shown.isEmpty) shown.node.replaceWith(place);
    growing(() => place.append(faultBox(error, shown.isEmpty ? () => (place.remove(), composer.run(answer)) : undefined)));
  }

  // The results of calls come from the user, who plays the tools here.
  function askResults(shown, calls) {
    const form = element("form", "results");
    calls.forEach((call, index) => {
      const field = element("textarea", "code");
      field.id = `result-${call.id}`;
      field.rows = 2;
      const label = element("label", "", `Result of ${call.function.name}${calls.length > 1 ? ` (call ${index + 1})` : ""}`);
      label.htmlFor = field.id;
      form.append(label, field);
    });
    const send = element("button", "primary", calls.length > 1 ? "Send results" : "Send result");
    form.append(send);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const results = [...form.querySelectorAll("textarea")].map((field) => field.value);
      form.remove();
      results.forEach((result, index) => {
        history.push({ role: "tool", tool_call_id: calls[index].id, content: result });
        shown.callBox.children[index].append(part("Result", element("pre", "text", result)));
      });
      composer.enabled = true;
      composer.run(answer);
    });
    growing(() => shown.node.append(form));
    composer.enabled = false;
    form.querySelector("textarea").focus();
  }

  async function say(signal) {
    const text = composer.input.value.trim();
    if (!text) return;
    composer.input.value = "";
    history.push({ role: "user", content: text });
    const body = element("div", "body prose", text);
    append(element("li", "message user", element("div", "label", "You"), body));
    await answer(signal);
  }

  const composer = new Composer(at("form"), say);
  clear.addEventListener("click", () => {
    composer.stop();
    history = [];
    messages.replaceChildren();
    composer.enabled = true;
    showState();
    composer.input.focus();
  });
  function checkTools() {
    toolsFault.textContent = "";
    try {
      readJson(tools);
    } catch (error) {
      toolsFault.textContent = visible(error.message);
    }
  }
  tools.addEventListener("input", checkTools);
  at("tools-example").addEventListener("click", () => {
    tools.value = JSON.stringify(EXAMPLE_TOOLS, null, 2);
    checkTools();
  });
  for (const text of SUGGESTIONS) {
    const button = element("button", "", text);
    button.type = "button";
    button.addEventListener("click", () => {
      composer.input.value = text;
      composer.run();
    });
    at("suggestions").append(element("li", "", button));
  }
  return composer;
}
