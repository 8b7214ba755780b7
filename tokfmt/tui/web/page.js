// Tells the terminal where its websocket is, and lets it begin when its font is there: it measures letters once.
const place = new URL("ws", window.location.href);
place.protocol = place.protocol === "https:" ? "wss:" : "ws:";
document.getElementById("terminal").dataset.sessionWebsocketUrl = place.href;

const begin = window.onload;
window.onload = (event) => {
  const faces = ["16px 'Roboto Mono'", "bold 16px 'Roboto Mono'", "italic 16px 'Roboto Mono'"];
  Promise.allSettled(faces.map((face) => document.fonts.load(face))).then(() => begin(event));
};

// The keys go to the terminal from the start, and again after the page was left and come back to.
const listen = () => document.querySelector("#terminal textarea")?.focus();
new MutationObserver(listen).observe(document.body, { attributeFilter: ["class"] });
window.addEventListener("focus", listen);
