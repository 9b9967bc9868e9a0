// Copy examples without prompts and output.
document.addEventListener("copy", (event) => {
  const text = String(document.getSelection());
  if (/^>>> /m.test(text)) {
    event.clipboardData.setData("text/plain", typed(text));
    event.preventDefault();
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest(".md-clipboard, .md-code__button");
  const code = button && button.closest("pre, .highlight")?.querySelector("code");
  if (code && /^>>> /m.test(code.textContent)) {
    event.stopImmediatePropagation();
    navigator.clipboard.writeText(typed(code.textContent));
  }
}, true);

function typed(text) {
  const lines = text.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
  return lines.map((line) => line.slice(4)).join("\n") + "\n";
}
