const EXAMPLE_SCHEMAS = {
  Contact: {
    request: "Make up a contact from Lisbon.",
    schema: {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 40 },
        age: { type: "integer", minimum: 18, maximum: 99 },
        languages: { type: "array", items: { enum: ["en", "pt", "es", "fr"] }, minItems: 1, uniqueItems: true },
      },
      required: ["name", "age", "languages"],
      additionalProperties: false,
    },
  },
  Order: {
    request: "Two coffees at 2.40 and a croissant at 1.80, ordered on 3 May 2024.",
    schema: {
      type: "object",
      properties: {
        date: { type: "string", format: "date" },
        items: {
          type: "array",
          maxItems: 5,
          items: {
            type: "object",
            properties: {
              article: { type: "string", maxLength: 30 },
              amount: { type: "integer", minimum: 1, maximum: 20 },
              price: { type: "number", minimum: 0, maximum: 100 },
            },
            required: ["article", "amount", "price"],
          },
        },
      },
      required: ["date", "items"],
    },
  },
  Tree: {
    request: "The parts of a bicycle, two levels deep.",
    schema: {
      $defs: {
        part: {
          type: "object",
          properties: {
            name: { type: "string", maxLength: 20 },
            parts: { type: "array", items: { $ref: "#/$defs/part" }, maxItems: 3 },
          },
          required: ["name"],
          additionalProperties: false,
        },
      },
      $ref: "#/$defs/part",
    },
  },
};

// Return JSON as one would write it: short lists stay on their line.
function pretty(value) {
  const text = JSON.stringify(value, null, 2);
  return text.replace(/\[\n\s+([^[\]{}]{0,60}?)\n\s+\]/g, (_, inner) => `[${inner.replace(/\n\s+/g, " ")}]`);
}

const VERDICTS = { valid: "valid", incomplete: "valid so far", invalid: "invalid" };

// Asks the server one question at a time, and always about the newest: older ones that still wait are dropped.
class Checker {
  constructor(show, pauseMs) {
    Object.assign(this, { show, pauseMs });
  }

  want(question) {
    this.question = question;
    if (!this.isBusy) this.work();
  }

  async work() {
    this.isBusy = true;
    while (this.question) {
      const question = this.question;
      this.question = undefined;
      let answer;
      try {
        answer = await connection.json("validate", question);
      } catch (error) {
        answer = { error };
      }
      this.show(answer, question, this.question === undefined);
      await new Promise((done) => setTimeout(done, this.pauseMs));
    }
    this.isBusy = false;
  }
}

function startSchema() {
  const at = (id) => document.getElementById(`schema-${id}`);
  const [value, faults, numbers, fault] = ["value", "value-faults", "value-numbers", "value-error"].map((id) =>
    document.getElementById(id));
  const [schemaField, verdict, valueVerdict] = [at("text"), at("verdict"), document.getElementById("value-verdict")];
  let timer;
  let written = ""; // the value so far

  const formatOf = (schema) => ({ type: "json_schema", json_schema: { schema } });

  function tell(place, kind, text) {
    place.dataset.verdict = kind;
    const shown = visible(text);
    if (place.textContent !== shown) place.textContent = shown; // what is told is read aloud
  }

  const schemaChecker = new Checker(({ error }, { response_format: format }, isNewest) => {
    if (!isNewest) return;
    if (error?.status === 400) schemaField.setAttribute("aria-invalid", "true");
    else schemaField.removeAttribute("aria-invalid");
    if (!error) {
      tell(verdict, "valid", "The schema can be enforced.");
      if (written && !composer.isRunning) valueChecker.want({ response_format: format, text: written });
    } else tell(verdict, "invalid", joined(error.pointer !== undefined && `at ${error.pointer || "top level"}`, error.message));
  }, 50);

  // Return the schema; undefined, and told, if it is no JSON.
  function readSchema() {
    try {
      const schema = readJson(schemaField);
      if (schema === undefined) tell(verdict, "", "Write a JSON schema, or take an example.");
      return schema;
    } catch (error) {
      tell(verdict, "invalid", error.message);
      return undefined;
    }
  }

  function checkSchema() {
    const schema = readSchema();
    if (schema !== undefined) schemaChecker.want({ response_format: formatOf(schema) });
  }

  const valueChecker = new Checker(({ error, status, num_valid_chars: count, faults: found }, { text }) => {
    if (!written.startsWith(text)) return; // of an earlier run
    if (error) {
      tell(valueVerdict, "", "not judged");
      return void faults.replaceChildren(element("li", "", error.message));
    }
    // Some more may have come since it was asked about. The server counts characters, not their halves.
    const good = status === "invalid" ? [...written].slice(0, count).join("") : written;
    value.replaceChildren(visible(good), element("span", "beyond", written.slice(good.length)));
    const place = found.length ? "" : ` from character ${count + 1} on`;
    tell(valueVerdict, status, VERDICTS[status] + (status === "invalid" ? place : ""));
    faults.replaceChildren(...found.map(({ pointer, message }) =>
      element("li", "", element("code", "", pointer || "top level"), ` ${message}`)));
  }, 100);

  async function run(signal) {
    const schema = readSchema();
    const request = composer.input.value.trim();
    if (schema === undefined) return void schemaField.focus();
    if (!request) return;
    const [meter, isHeld] = [new Meter(), at("hold").checked];
    const check = () => valueChecker.want({ response_format: formatOf(schema), text: written });
    let [usage, ending] = [];
    document.getElementById("value-empty").hidden = true;
    value.hidden = false;
    written = "";
    value.classList.add("cursor");
    for (const place of [value, faults, numbers, fault, valueVerdict]) place.replaceChildren();
    const body = {
      messages: [
        { role: "system", content: `Answer with JSON, and nothing else, that is valid under this schema:\n${JSON.stringify(schema)}` },
        { role: "user", content: request },
      ],
      max_tokens: 1024,
      stream_options: { include_usage: true },
      response_format: isHeld ? formatOf(schema) : undefined,
    };
    try {
      for await (const chunk of connection.events("v1/chat/completions", body, signal)) {
        usage = chunk.usage || usage;
        for (const { delta, finish_reason: finishReason } of chunk.choices) {
          ending = finishReason || ending;
          if (!delta.content) continue;
          meter.note();
          written += delta.content;
          value.append(visible(delta.content));
          check();
        }
      }
    } catch (error) {
      ending = signal.aborted ? "stopped" : "broke off";
      if (!signal.aborted) fault.append(faultBox(error));
    }
    value.classList.remove("cursor");
    if (!written) {
      value.hidden = true;
      return;
    }
    numbers.textContent = meter.text(usage, ENDINGS[ending] || ending);
    check();
  }

  const composer = new Composer(at("form"), run);
  schemaField.addEventListener("input", () => {
    choice.value = "";
    clearTimeout(timer);
    if (readSchema() !== undefined) timer = setTimeout(checkSchema, 200);
  });
  const choice = at("example");
  choice.append(...Object.keys(EXAMPLE_SCHEMAS).map((name) => element("option", "", name)));
  choice.selectedIndex = 1; // the first says that the schema is of no example
  const take = () => {
    const { schema, request } = EXAMPLE_SCHEMAS[choice.value];
    schemaField.value = pretty(schema);
    composer.input.value = request;
  };
  choice.addEventListener("change", () => {
    take();
    checkSchema();
  });
  take();
  composer.refresh = checkSchema;
  return composer;
}
