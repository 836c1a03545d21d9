"use strict";
// Zoom and search of flame graphs. Without it the graphs are whole, and say all on hover.
// They are in a page, or a graph is a file of its own.
const alone = document.documentElement.matches("svg.opcost-flame");
const make = (name) => document.createElementNS("http://www.w3.org/1999/xhtml", name);
for (const box of alone ? [document.documentElement] : document.querySelectorAll(".flame")) {
  const svg = alone ? box : box.querySelector("svg");
  const number = (element, name) => Number(element.getAttribute(name));
  const frames = [...svg.querySelectorAll(".f")].map((group) => {
    const rects = [...group.querySelectorAll("rect")];
    const text = group.querySelector("text");
    const said = group.querySelector("title").textContent;
    const [x, y, width] = ["x", "y", "width"].map((name) => number(rects[0], name));
    // Behind the name stands its file.
    const name = said.split("\n")[0].replace(/ · [^·]*$/, "");
    return { group, rects, text, said, name, x, y, width, label: text && text.textContent,
             node: group.dataset.n, panel: group.parentNode };
  });
  const panels = [...svg.querySelectorAll(".panel")].map((panel) => {
    const own = frames.filter((frame) => frame.panel === panel);
    const root = own.find((frame) => frame.node === "all");
    own.forEach((frame) => { frame.depth = Math.abs(frame.y - root.y); });
    return { name: panel.dataset.name, own, root };
  });
  const left = panels[0].root.x;
  const whole = svg.viewBox.baseVal.width - 2 * left;
  const character = 6.7;

  // A name with a mark for what is between brackets, but for types around methods and for operators.
  const without = (name, open, close, mark) => {
    let [text, depth] = ["", 0];
    for (let at = 0; at < name.length; at += 1) {
      const operator = /^operator *(?:<=>|<<=?|>>=?|->\*?|[<>]=?|\(\))/.exec(name.slice(at, at + 16));
      const whole = open === "(" ? !name.startsWith("(anonymous", at) : /[\w:>]$/.test(text);
      if (operator && depth === 0) {
        text += operator[0];
        at += operator[0].length - 1;
      } else if (name[at] === open && (depth > 0 || whole)) {
        if (depth === 0) text += mark;
        depth += 1;
      } else if (depth === 0) {
        text += name[at];
      } else if (name[at] === close && !name.startsWith("->", at - 1)) {
        depth -= 1;
      }
    }
    return text;
  };

  const cut = (text, room) => {
    if (text.length <= room) return text;
    const end = Math.ceil((room - 1) / 2);
    return text.slice(0, room - 1 - end) + "…" + text.slice(text.length - end);
  };

  // A name in so many characters: template arguments go first, then parameters with the return type,
  // then namespaces from the outside. Where the marks of these leave no room, the function's own name
  // stands alone, and only then its middle is cut.
  const shorten = (name, room) => {
    if (name.length <= room) return name;
    let short = without(name, "<", ">", "<…>");
    if (short.length <= room) return short;
    short = without(short, "(", ")", "(…)");
    const parameters = short.indexOf("(…)");
    if (parameters > 0 && !/operator|\(anonymous/.test(short)) {
      short = short.slice(short.lastIndexOf(" ", parameters) + 1);
    }
    for (let left = ""; short.length > room && short.includes("::"); left = "…") {
      short = "…" + short.slice(left.length).replace(/^.*?::/, "");
    }
    return short.length <= room ? short : cut(short.replace(/^…|<…>|\(…\)/g, ""), room);
  };

  const place = (frame, x, width) => {
    for (const rect of frame.rects) {
      rect.setAttribute("x", x);
      rect.setAttribute("width", width);
    }
    const room = Math.floor((width - 5) / character);
    if (!frame.text && room >= 3) {
      frame.text = document.createElementNS(svg.namespaceURI, "text");
      frame.text.setAttribute("y", frame.y + 12.5);
      frame.group.append(frame.text);
    }
    if (frame.text) {
      frame.text.setAttribute("x", x + 3);
      const name = frame.node === "all" ? frame.label : frame.name;
      frame.text.textContent = room < 3 ? "" : shorten(name, room);
    }
  };

  let zoomed = "all";
  const zoom = (node) => {
    zoomed = node;
    const of = panels.map(({ own }) => own.find((frame) => frame.node === node));
    const scale = whole / Math.max(...of.map((frame) => frame ? frame.width : 0));
    panels.forEach(({ own }, at) => {
      const target = of[at];
      for (const frame of own) {
        const within = target && frame.x < target.x + target.width - 1e-3 && frame.x + frame.width > target.x + 1e-3;
        const above = within && frame.depth < target.depth;
        frame.group.toggleAttribute("hidden", !within);
        frame.group.classList.toggle("above", above);
        if (!within) continue;
        if (above) place(frame, left, target.width * scale);
        else place(frame, left + (frame.x - target.x) * scale, frame.width * scale);
      }
    });
    back.disabled = node === "all";
  };

  const tools = make("p");
  tools.className = "tools";
  const label = make("label");
  const search = make("input");
  search.type = "search";
  label.append("Search ", search);
  const back = make("button");
  back.type = "button";
  back.textContent = "Whole graph";
  back.disabled = true;
  const found = make("output");
  tools.append(label, back, found);
  const pointed = make("p");
  pointed.className = "pointed";
  const help = "Click on a frame to zoom into it; Esc shows the whole graph again. Enter in the search zooms into its widest frame.";
  pointed.textContent = help;
  if (alone) {
    // The heading leaves room at its right; the frames' titles say what is pointed at.
    const place = document.createElementNS(svg.namespaceURI, "foreignObject");
    for (const [name, value] of [["x", whole / 2], ["y", 24], ["width", whole / 2 + left], ["height", 34]]) {
      place.setAttribute(name, value);
    }
    tools.title = help;
    place.append(tools);
    svg.append(place);
  } else {
    box.before(tools);
    box.after(pointed);
  }
  box.classList.add("live");

  const percent = (part) => (100 * part).toFixed(2) + " %";
  const look = () => {
    const wanted = search.value.trim().toLowerCase();
    svg.classList.toggle("searching", wanted !== "");
    const parts = panels.map(({ name, own, root }) => {
      let [hits, covered, end] = [0, 0, -Infinity];
      for (const frame of [...own].sort((one, two) => one.x - two.x || one.depth - two.depth)) {
        const hit = wanted !== "" && frame !== root && frame.said.split("\n")[0].toLowerCase().includes(wanted);
        frame.group.classList.toggle("hit", hit);
        if (!hit) continue;
        hits += 1;
        // A frame within one that was found is a part of it.
        covered += Math.max(0, frame.x + frame.width - Math.max(end, frame.x));
        end = Math.max(end, frame.x + frame.width);
      }
      return `${hits} ${hits === 1 ? "frame" : "frames"}, ${percent(covered / root.width)} of ${name}`;
    });
    found.textContent = wanted === "" ? "" : parts.join("; ");
  };
  search.addEventListener("input", look);
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const hits = frames.filter((frame) => frame.group.classList.contains("hit"));
    if (hits.length) zoom(hits.reduce((one, two) => two.width > one.width ? two : one).node);
  });
  back.addEventListener("click", () => zoom("all"));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && zoomed !== "all") zoom("all");
  });
  const frame = (event) => {
    const group = event.target.closest(".f");
    return frames.find((frame) => frame.group === group);
  };
  svg.addEventListener("click", (event) => {
    const clicked = frame(event);
    if (clicked) zoom(clicked.node === zoomed ? "all" : clicked.node);
  });
  svg.addEventListener("mouseover", (event) => {
    const under = frame(event);
    pointed.textContent = under ? under.said : help;
  });
}
