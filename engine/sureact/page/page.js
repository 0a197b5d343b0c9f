// The tabs, the state of the server, and its key.
const server = { model: "model" };

function startTabs(refresh) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));
  const placeOf = (tab) => `#/${panelOf(tab).id}`; // with its slash no id, to which the browser would take the focus

  function open(tab) {
    for (const other of tabs) {
      other.setAttribute("aria-selected", String(other === tab));
      other.tabIndex = other === tab ? 0 : -1;
      panelOf(other).hidden = other !== tab;
    }
    history.replaceState(null, "", placeOf(tab));
    refresh();
  }

  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", ({ key }) => {
      const moves = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 };
      if (!(key in moves)) return;
      const next = tabs[(moves[key] + tabs.length) % tabs.length];
      open(next);
      next.focus();
    });
  });
  const wanted = tabs.find((tab) => placeOf(tab) === location.hash) || tabs[0];
  open(wanted);
  openComposer().input.focus();
}

async function showModel() {
  const { data: [model] } = await connection.json("v1/models");
  Object.assign(server, { model: model.id, isKnown: true });
  document.getElementById("model").textContent = visible(model.id);
  document.getElementById("model").title = `${model.max_model_len.toLocaleString("en")} tokens of context`;
  document.title = `${visible(model.id)} \u00b7 sureact`;
}

// Tells whether the server may be asked; the way is open even where a key is wanted.
async function watchState(refresh) {
  const state = document.getElementById("state");
  const texts = { ready: "ready", unready: "not ready", unreachable: "unreachable" };
  for (;;) {
    let now = "unreachable";
    try {
      now = (await fetch("ready", { cache: "no-store" })).ok ? "ready" : "unready";
    } catch {
      // It is told as such.
    }
    if (state.dataset.state !== now) {
      state.dataset.state = now;
      state.textContent = texts[now];
      server.isKnown = false;
      refresh();
    }
    await new Promise((done) => setTimeout(done, now === "ready" ? 10000 : 2000));
  }
}

function startKey(refresh) {
  const [form, field, fault, forget] = ["key-form", "key", "key-fault", "key-forget"].map((id) => document.getElementById(id));

  connection.onKeyWanted = (error) => {
    fault.textContent = visible(error.message);
    form.hidden = false;
    forget.hidden = true;
    field.focus();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    connection.key = field.value.trim();
    field.value = "";
    form.hidden = true;
    forget.hidden = !connection.key;
    openComposer().input.focus();
    server.isKnown = false;
    refresh();
  });
  forget.addEventListener("click", () => {
    connection.key = "";
    server.isKnown = false;
    refresh();
  });
  forget.hidden = !connection.key;
}

const composers = { chat: startChat(server), schema: startSchema(), agent: startAgent() };
const openComposer = () => composers[Object.keys(composers).find((id) => !document.getElementById(id).hidden)];

// Asks what the open tab shows of the server, once the server can be asked.
async function refresh() {
  if (document.getElementById("state").dataset.state !== "ready") return;
  try {
    if (!server.isKnown) await showModel();
  } catch (error) {
    if (error.status === 401) return; // until there is a key
  }
  openComposer().refresh?.();
}

const isWide = matchMedia("(min-width: 60.01rem)");
const placeSettings = () => document.querySelectorAll(".settings").forEach((box) => (box.open = isWide.matches));
isWide.addEventListener("change", placeSettings);
placeSettings();
startTabs(refresh);
startKey(refresh);
watchState(refresh);
