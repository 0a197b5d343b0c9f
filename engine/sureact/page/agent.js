// A run of an agent as its events come, drawn as the page of a trace draws it.
class AgentRun {
  constructor(place) {
    this.place = place;
    this.steps = new Map();
    this.meter = new Meter();
    this.outputText = "";
    this.render = throttled(() => growing(() => this.show()));
  }

  // Return what is known of a step, whose card is made when the first is.
  step(index) {
    if (!this.steps.has(index)) {
      const card = stepCard(index);
      const step = { card, thinking: "", thought: "", call: "", notes: element("div", ""), parts: element("div", "cursor") };
      card.append(step.notes, step.parts);
      card.setAttribute("aria-busy", "true");
      this.steps.set(index, step);
      this.place.append(card);
    }
    return this.steps.get(index);
  }

  take(event) {
    const handle = AgentRun.HANDLERS[event.type];
    if (!handle) return;
    if (event.delta) this.meter.note(true);
    growing(() => handle(this, event));
    this.render();
  }

  show() {
    for (const step of this.steps.values()) {
      if (!step.isDone) step.parts.replaceChildren(...AgentRun.parts(step));
    }
    if (!this.outputs) return;
    this.outputs.lastChild.replaceChildren(part("Answer", element("pre", "text", this.outputText)));
  }

  // The parts of a step that is open or done.
  static parts({ thinking, thought, call, observed }) {
    const thoughts = [];
    if (thinking) {
      thoughts.push(element("details", "reasoning", element("summary", "", "Reasoning"), element("pre", "text", thinking)));
    }
    if (thought) thoughts.push(element("pre", "text", thought.trim()));
    return [
      ...(thoughts.length ? [part("Thought", ...thoughts)] : []),
      ...(call ? [part("Call", element("pre", "text", call.trim()))] : []),
      ...(observed ? [observed] : []),
    ];
  }

  // Nothing more comes.
  close(note) {
    this.render.now();
    for (const { card, parts } of this.steps.values()) {
      parts.classList.remove("cursor");
      card.removeAttribute("aria-busy");
    }
    this.outputs?.classList.remove("cursor");
    if (note) this.place.append(element("p", "numbers", note));
  }

  finish(run) {
    const usage = run.usage;
    const values = [json("Values", run.outputs)];
    if (run.reasoning) values.unshift(part("Reasoning", element("pre", "text", run.reasoning)));
    for (const { part: what, step_index: index, pointer, reason } of run.early_ends) {
      const place = joined(what, index !== null && `step ${index + 1}`, pointer);
      values.push(element("p", "numbers", `${place} ended early: ${reason}`));
    }
    const all = seconds((performance.now() - this.meter.began) / 1000);
    const numbers = this.meter.text(usage, `tools ${seconds(usage.tool_seconds)}`, `all in ${all}`);
    const card = outputsCard(run.termination_reason, ...values, element("div", "numbers", numbers));
    if (this.outputs) this.outputs.replaceWith(card);
    else this.place.append(card);
    this.outputs = undefined;
  }

  static HANDLERS = {
    "thinking.delta": (run, { step_index: index, delta }) => {
      run.step(index).thinking += delta;
    },
    "thought.delta": (run, { step_index: index, delta }) => {
      run.step(index).thought += delta;
    },
    "call.delta": (run, { step_index: index, delta }) => {
      run.step(index).call += delta;
    },
    "call.withdrawn": (run, { step_index: index, tool_name: name, tool_args: args }) => {
      const step = run.step(index);
      step.call = "";
      step.notes.append(element("div", "numbers", `Taken back, since it repeats an earlier call: ${name} ${JSON.stringify(args)}`));
    },
    "call.started": (run, { step_index: index, tool_name: name, tool_args: args }) => {
      const step = run.step(index);
      step.call = `${name} ${JSON.stringify(args)}`;
      step.observed = part("Observation", element("span", "dim", "The tool works \u2026"));
    },
    "step.completed": (run, { step_index: index, step: told }) => {
      const step = run.step(index);
      const how = { isError: told.is_error, isRepeat: told.is_repeat };
      step.isDone = true;
      step.parts.classList.remove("cursor");
      step.card.removeAttribute("aria-busy");
      step.parts.replaceChildren(...AgentRun.parts({
        thinking: told.thinking,
        thought: told.thought,
        call: told.tool_name ? `${told.tool_name} ${JSON.stringify(told.tool_args)}` : step.call,
        observed: observationPart(told.observation, how, told.tool_seconds),
      }));
    },
    "step.dropped": (run, { step_index: index }) => {
      const step = run.step(index);
      step.notes.append(element("div", "numbers", "The step did not come to its end."));
      step.observed = undefined;
    },
    "context.truncated": (run, { trimmed_steps: trimmed, dropped_steps: dropped }) => {
      run.place.append(element("div", "step", truncatedPart(trimmed, dropped)));
    },
    "output.delta": (run, { delta }) => {
      run.outputText += delta;
      if (run.outputs) return;
      run.outputs = element("div", "step cursor", element("h3", "", "Outputs"), element("div", ""));
      run.place.append(run.outputs);
    },
    "run.completed": (run, { run: told }) => run.finish(told),
  };
}

function startAgent() {
  const at = (id) => document.getElementById(`agent-${id}`);
  const [steps, hint, clear] = [document.getElementById("steps"), at("hint"), at("clear")];

  function showState() {
    const isEmpty = !steps.children.length;
    at("empty").hidden = !isEmpty;
    clear.hidden = isEmpty;
  }

  async function listTools() {
    try {
      showTools((await connection.json("v1/agents/tools")).data);
      hint.textContent = "It thinks, calls the server's tools, and reads what they give, step by step.";
      composer.enabled = true;
    } catch (error) {
      showTools([]);
      hint.textContent = visible(error.message);
      composer.enabled = false;
    }
  }

  function showTools(tools) {
    const listed = JSON.stringify(tools);
    if (at("tools").listed === listed) return; // what is picked stays so
    at("tools").listed = listed;
    at("tools").hidden = !tools.length;
    at("tools").replaceChildren(element("legend", "", "Tools"), ...tools.map(({ name, description }) => {
      const box = element("input", "");
      Object.assign(box, { type: "checkbox", checked: true, value: name, id: `tool-${name}` });
      const label = element("label", "", name, element("span", "hint", description));
      label.htmlFor = box.id;
      return element("div", "check", box, label);
    }));
  }

  async function run(signal) {
    const question = composer.input.value.trim();
    if (!question) return;
    const names = [...at("tools").querySelectorAll("input")];
    const picked = names.filter((box) => box.checked).map((box) => box.value);
    const body = { question, max_iters: readNumber(at("max-iters")) };
    if (picked.length < names.length) body.tools = picked;
    const place = element("div", ""); // what comes once it is cleared away is seen nowhere
    steps.replaceChildren(element("p", "asked", question), place);
    showState();
    const shown = new AgentRun(place);
    try {
      for await (const event of connection.events("v1/agents/run", body, signal)) shown.take(event);
      shown.close();
    } catch (error) {
      shown.close(signal.aborted ? "Stopped." : "");
      if (!signal.aborted) growing(() => place.append(faultBox(error, () => composer.run())));
    }
  }

  const composer = new Composer(at("form"), run);
  clear.addEventListener("click", () => {
    composer.stop();
    steps.replaceChildren();
    showState();
    composer.input.focus();
  });
  composer.refresh = listTools;
  return composer;
}
