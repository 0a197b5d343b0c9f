// An answer's text as it grows. Code between fences is set apart; nothing else of its notation is read.
class Prose {
  constructor() {
    this.node = element("div", "");
    this.shown = [];
  }

  set(text) {
    const blocks = Prose.blocks(text);
    blocks.forEach(({ kind, text: blockText, language }, index) => {
      const old = this.shown[index];
      if (!old || old.kind !== kind || old.language !== language) {
        this.shown.splice(index).forEach(({ box }) => box.remove());
        const made = Prose.made(kind, language);
        this.shown.push({ kind, language, ...made });
        this.node.append(made.box);
      }
      const block = this.shown[index];
      if (block.text !== blockText) {
        block.text = blockText;
        block.inner.textContent = visible(blockText);
      }
    });
    this.shown.splice(blocks.length).forEach(({ box }) => box.remove());
  }

  static blocks(text) {
    return text.split(/^```/m).flatMap((piece, index) => {
      if (index % 2 === 0) {
        const trimmed = piece.replace(/^\s*\n/, "").trimEnd();
        return trimmed ? [{ kind: "prose", text: trimmed }] : [];
      }
      const end = piece.indexOf("\n");
      const language = (end < 0 ? piece : piece.slice(0, end)).trim();
      return [{ kind: "code", language, text: end < 0 ? "" : piece.slice(end + 1).replace(/\n$/, "") }];
    });
  }

  static made(kind, language) {
    if (kind === "prose") {
      const box = element("div", "prose");
      return { box, inner: box };
    }
    const inner = element("pre", "");
    const box = element("div", "code-block", ...(language ? [element("div", "label", language)] : []), inner);
    return { box, inner };
  }
}

// Calls `render` at most once a frame, and once more at the end.
function throttled(render) {
  let isWanted = false;
  const run = () => {
    if (isWanted) render();
    isWanted = false;
  };
  const want = () => {
    if (!isWanted) setTimeout(run, 30);
    isWanted = true;
  };
  want.now = () => {
    isWanted = true;
    run();
  };
  return want;
}

// Does what makes the page longer, and stays at its end if that is what was shown.
function growing(change) {
  const page = document.scrollingElement;
  const wasAtEnd = page.scrollHeight - page.scrollTop - page.clientHeight < 120;
  change();
  if (wasAtEnd) page.scrollTop = page.scrollHeight;
}
