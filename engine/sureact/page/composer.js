// A form that asks the server, one request at a time: Enter sends, its Stop button and Esc stop.
class Composer {
  static all = [];

  constructor(form, ask) {
    this.input = form.querySelector(".question");
    this.send = form.querySelector("[type=submit]");
    this.stopButton = form.querySelector(".stop");
    this.ask = ask;
    this.isEnabled = true;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.run();
    });
    this.stopButton.addEventListener("click", () => this.stop());
    Composer.all.push(this);
  }

  get isRunning() {
    return this.controller !== undefined;
  }

  set enabled(value) {
    this.isEnabled = value;
    this.send.disabled = !value;
  }

  // Ask what the form asks, or something else; whatever goes wrong is shown by whoever asks.
  async run(ask = this.ask) {
    if (this.isRunning || !this.isEnabled) return;
    this.controller = new AbortController();
    this.show();
    try {
      await ask(this.controller.signal);
    } finally {
      this.controller = undefined;
      const hadFocus = [document.body, this.stopButton, this.send].includes(document.activeElement);
      this.show();
      if (hadFocus) this.input.focus();
    }
  }

  show() {
    const hadFocus = document.activeElement === this.send;
    this.send.hidden = this.isRunning;
    this.stopButton.hidden = !this.isRunning;
    if (hadFocus && this.isRunning) this.stopButton.focus();
  }

  stop() {
    this.controller?.abort();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") Composer.all.forEach((composer) => composer.stop());
});

// Return the JSON of a field, undefined if it is empty.
function readJson(field) {
  field.removeAttribute("aria-invalid");
  const text = field.value.trim();
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    field.setAttribute("aria-invalid", "true");
    throw new Error(`This is not JSON: ${error.message}`);
  }
}

// Return the number of a field, undefined if it is empty.
const readNumber = (field) => (field.value === "" ? undefined : Number(field.value));
