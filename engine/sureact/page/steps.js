"use strict";
// What the page of a trace and the server's page have in common. Everything is put into a page as text, never as markup.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function visible(text) {
  const pictured = text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)));
  const shown = pictured.replace(/\u007f/g, "\u2421").replace(/[\u0080-\u009f]/g, "\ufffd");
  return shown.replace(BIDI, (c) => `[U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  for (const child of children) made.append(typeof child === "string" ? visible(child) : child);
  return made;
}

const seconds = (value) => (value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${value.toFixed(2)} s`);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const joined = (...parts) => parts.filter(Boolean).join(" \u00b7 ");

function part(label, ...children) {
  return element("div", "part", element("div", "label", label), element("div", "", ...children));
}

function json(label, value) {
  return part(label, element("pre", "text", JSON.stringify(value, null, 2)));
}

function stepCard(index) {
  return element("div", "step", element("h3", "", `Step ${index + 1}`));
}

function callPart(toolName, toolArgs) {
  return part("Call", element("pre", "text", `${toolName} ${JSON.stringify(toolArgs)}`));
}

function observationPart(observation, { isError, isRepeat }, toolSeconds) {
  const text = element("pre", `text${isError ? " error" : ""}`, observation);
  const shown = part(isError ? "Error" : isRepeat ? "Repeat" : "Observation", text);
  if (toolSeconds !== undefined) shown.lastChild.append(element("div", "numbers", `tool ${seconds(toolSeconds)}`));
  return shown;
}

function truncatedPart(trimmedSteps, droppedSteps) {
  const told = (what, indices) => (indices.length ? `${what} ${indices.map((index) => index + 1).join(", ")}. ` : "");
  const text = told("Cut the observations of steps", trimmedSteps) + told("Dropped steps", droppedSteps);
  return part("Context full", element("div", "", text));
}

function outputsCard(terminationReason, ...children) {
  return element("div", "step", element("h3", "", `Outputs (${terminationReason})`), ...children);
}
