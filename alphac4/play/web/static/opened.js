// A plain script, because a page that is opened as a file cannot load modules, and would show "Loading" forever.
if (location.protocol === "file:") {
  document.getElementById("status").textContent =
    "This page needs a web server. In its folder run “python -m http.server” and open http://localhost:8000.";
}
