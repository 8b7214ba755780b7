// Give the terminal the address of its websocket, and start it when its font is loaded, as it measures letters only once.
const place = new URL("ws", window.location.href);
place.protocol = place.protocol === "https:" ? "wss:" : "ws:";
document.getElementById("terminal").dataset.sessionWebsocketUrl = place.href;

const begin = window.onload;
window.onload = (event) => {
  const faces = ["16px 'Roboto Mono'", "bold 16px 'Roboto Mono'", "italic 16px 'Roboto Mono'"];
  Promise.allSettled(faces.map((face) => document.fonts.load(face))).then(() => begin(event));
};

// Focus the terminal at the start, and whenever the page gets the focus again.
const listen = () => document.querySelector("#terminal textarea")?.focus();
new MutationObserver(listen).observe(document.body, { attributeFilter: ["class"] });
window.addEventListener("focus", listen);
