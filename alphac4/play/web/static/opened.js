// A plain script: opened as a file, a page cannot load modules, and would say "Loading" for ever.
if (location.protocol === "file:") {
  document.getElementById("status").textContent =
    "This page needs a web server. In its folder run “python -m http.server” and open http://localhost:8000.";
}
