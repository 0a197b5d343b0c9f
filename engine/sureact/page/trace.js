const trace = JSON.parse(document.getElementById("trace").textContent);

function tokens(generation) {
  const box = element("div", "text");
  if (!generation.tokens) return element("div", "text", generation.text);
  const forced = new Set(generation.forced || []);
  generation.tokens.forEach((text, index) => {
    const kind = forced.has(index) ? "forced" : generation.constraint ? "constrained" : "free";
    const id = generation.token_ids[index];
    const span = element("span", kind, text);
    span.dataset.id = id;
    span.title = `token ${index}: id ${id}, ${kind}`;
    box.append(span);
  });
  return box;
}

function numbers(generation) {
  const { usage, timings } = generation;
  const parts = [
    `${usage.completion_tokens} tokens`,
    usage.forced_tokens ? `${usage.forced_tokens} forced` : "",
    `${usage.cached_tokens} of ${usage.prompt_tokens} before it cached`,
    `prefill ${seconds(timings.prefill_s)}`,
    `decode ${seconds(timings.decode_s)}`,
    timings.mask_s ? `mask ${seconds(timings.mask_s)}` : "",
    `ended by ${generation.finish_reason}`,
    ...(generation.early_ends || []).map((end) => `${end.pointer || "text"} ended early: ${end.reason}`),
  ];
  return element("div", "numbers", joined(...parts));
}

function generated(label, record) {
  const all = [...(record.earlier_generations || []), ...(record.generation ? [record.generation] : [])];
  return part(label, ...all.flatMap((generation) => [tokens(generation), numbers(generation)]));
}

const RENDER = {
  prompt: (record) => {
    const box = element("details", "", element("summary", "", "Opening prompt"), element("pre", "text", record.text));
    if (record.context_ids) box.append(element("div", "numbers", `${record.context_ids.length} tokens`));
    return box;
  },
  thought: (record) => (record.generation ? generated("Thought", record) : part("Thought", element("pre", "text", record.text))),
  call: (record) => {
    const box = generated("Call", record);
    if (record.refusal) box.lastChild.append(element("div", "error", `Refused: ${record.refusal}`));
    for (const taken of record.earlier_generations || []) {
      box.lastChild.append(element("div", "numbers", `Taken back, since it repeats an earlier call: ${taken.text.trim()}`));
    }
    if (record.tool_name === null) box.lastChild.append(element("div", "error", "Did not end within its tokens."));
    return box;
  },
  approval: (record) =>
    part("Approval", element("div", record.decision === "deny" ? "error" : "", record.decision
      + (record.reason ? `: ${record.reason}` : "")
      + (record.decision === "edit" ? ` to ${JSON.stringify(record.tool_args)}` : ""))),
  call_started: (record, run) => {
    const known = run.some((other) => other.type === "call" && other.step === record.step);
    return known ? null : callPart(record.tool_name, record.tool_args);
  },
  observation: ({ finished }) =>
    observationPart(finished.observation, { isError: finished.is_error, isRepeat: finished.is_repeat }, finished.tool_s || 0),
  truncated: (record) => truncatedPart(record.trimmed_steps || [], record.dropped_steps),
  resumed: (record) =>
    part("Resumed", element("div", "", `Goes on with step ${record.step + 1}.`
      + (record.unfinished ? ` The unfinished call: ${record.unfinished}` : ""))),
  outputs: (record) => {
    const box = outputsCard(record.termination_reason);
    if (record.generation) box.append(generated("Answer", record));
    box.append(json("Values", record.outputs), json("Usage", record.usage));
    return box;
  },
  aborted: (record) => element("div", "step error", `Aborted by ${record.error}: ${record.message}`),
};

function timeline(records) {
  const pieces = [];
  for (const record of records) {
    for (const generation of [...(record.earlier_generations || []), record.generation].filter(Boolean)) {
      pieces.push(["prefill", generation.timings.prefill_s, record], ["decode", generation.timings.decode_s, record]);
    }
    if (record.type === "observation") pieces.push(["tool", record.finished.tool_s || 0, record]);
  }
  const total = sum(pieces.map(([, value]) => value));
  const bar = element("div", "timeline");
  if (!total) return bar;
  for (const [kind, value, record] of pieces) {
    if (!value) continue;
    const piece = element("a", kind);
    piece.style.flex = `${value / total} 0 0`;
    piece.title = `${record.type}${record.step === undefined ? "" : ` of step ${record.step + 1}`}: ${kind} ${seconds(value)}`;
    piece.href = `#${anchor(record)}`;
    bar.append(piece);
  }
  const share = (wanted) => seconds(sum(pieces.filter(([kind]) => kind === wanted).map(([, value]) => value)));
  const note = element("div", "numbers", joined(...["prefill", "decode", "tool"].map((kind) => `${kind} ${share(kind)}`)));
  return element("div", "", bar, note);
}

const anchor = (record) => `r${record.run_id}-${record.step === undefined ? "end" : record.step}`;

function summary(header) {
  const pieces = [header.model, `format ${header.prompt_format}`, `${header.tools.length} tools`,
    `sureact ${header.sureact_version}`, new Date(header.time_s * 1000).toISOString()];
  const box = element("div", "", element("h2", "", `Run ${header.run_id}`), element("div", "dim", joined(...pieces)));
  const tools = element("details", "", element("summary", "", "Tools"), element("pre", "text", JSON.stringify(header.tools, null, 2)));
  box.append(json("Inputs", header.inputs), tools);
  return box;
}

function showRun(records) {
  const section = element("section", "");
  const header = records.find((record) => record.type === "header");
  section.append(header ? summary(header) : element("h2", "", `Run ${records[0].run_id}`));
  section.append(timeline(records));
  let step = null;
  let shownStep = -1;
  for (const record of records) {
    const made = RENDER[record.type] ? RENDER[record.type](record, records) : null;
    if (!made) continue;
    if (record.step === undefined || record.type === "resumed") {
      if (record.type === "outputs") made.id = anchor(record);
      section.append(made);
      step = null;
    } else {
      if (!step || shownStep !== record.step) {
        step = stepCard(record.step);
        if (!document.getElementById(anchor(record))) step.id = anchor(record);
        shownStep = record.step;
        section.append(step);
      }
      step.append(made);
    }
  }
  document.getElementById("runs").append(section);
}

function search(wanted) {
  const needle = visible(wanted).toLowerCase();
  let found = 0;
  for (const step of document.querySelectorAll(".step")) {
    const isHit = !needle || step.textContent.toLowerCase().includes(needle);
    step.classList.toggle("hidden", !isHit);
    for (const text of step.querySelectorAll(".text")) {
      const hasText = Boolean(needle) && text.textContent.toLowerCase().includes(needle);
      text.classList.toggle("hit", hasText);
      found += hasText;
    }
  }
  document.getElementById("found").textContent = needle ? `${found} found` : "";
}

const runs = new Map();
for (const record of trace) {
  if (!runs.has(record.run_id)) runs.set(record.run_id, []);
  runs.get(record.run_id).push(record);
}
runs.forEach(showRun);
document.getElementById("search").addEventListener("input", (event) => search(event.target.value));
