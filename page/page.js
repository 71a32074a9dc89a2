// SPDX-License-Identifier: Apache-2.0
// Puts the documents on the page: all reports together, each of the others in a part of its own.
"use strict";

const kViews = {
  "tandem-plan-1": ["Plan", planView],
  "tandem-advice-1": ["Advice", adviceView],
  "tandem-compare-1": ["Comparison", comparisonView],
  "tandem-check-1": ["Cross-check", checkView],
  "tandem-validation-1": ["Validation", validationView],
  "tandem-race-1": ["Race", raceView],
  "tandem-collective-1": ["Collective", collectiveView],
  "tandem-collectives-1": ["Collectives", collectiveView],
  "tandem-sweep-1": ["Sweep", sweepView],
};

/** A part of the page; an error in it is shown there, and the rest stands. */
function chapter(title, files, view) {
  const id = newId("part");
  const content = make("section", {id, class: "chapter", "aria-labelledby": `${id}-title`},
    make("h2", {id: `${id}-title`}, title, files ? make("small", {}, files) : null));
  try {
    content.append(...view().flat().filter(Boolean));
  } catch (error) {
    console.error(error);
    content.append(make("p", {class: "lacks bad"}, `This document cannot be shown: ${error.message}`));
  }
  return {id, title, content};
}

function chaptersOf(documents) {
  const reports = documents.filter((d) => d.document.schema === "tandem-reports-2");
  const chapters = [];
  for (const d of documents) {
    if (reports.includes(d)) {
      if (d === reports[0]) {
        const live = reports.some((r) => kLive.includes(r.file)), executed = new Set(reports.flatMap((r) => r.document.reports.map((x) => x.engine)));
        const title = executed.size > 1 ? "Predicted and executed" : executed.has("exec") ? "Execution" : "Prediction";
        chapters.push(chapter(title, live ? null : reports.map((r) => r.file).join(", "), () => reportsView(reports)));
      }
      continue;
    }
    const [title, view] = kViews[d.document.schema] || ["Document", () => [lacks(`This page has no view of ${d.document.schema}.`)]];
    chapters.push(chapter(title, d.file, () => view(d)));
  }
  return chapters;
}

function startPage() {
  const shown = JSON.parse(document.getElementById("documents").textContent);
  if (shown.live) { startLive(shown); return; }
  const chapters = chaptersOf(shown.documents);
  document.getElementById("main").replaceChildren(...chapters.map((c) => c.content));
  if (chapters.length > 1)
    document.getElementById("contents").append(...chapters.map((c) => make("li", {}, make("a", {href: `#${c.id}`}, c.title))));
  document.getElementById("made").textContent = `Made by Tandem ${shown.version}. Everything on this page is in the page: it asks no network.`;
}
