// The search is a worker, which a browser does not start from files: there it runs in a frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "Search";
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = () => Promise.resolve();
      const script = this.inner.document.createElement("script");
      script.src = address;
      script.addEventListener("load", () => {
        const ready = this.waiting;
        this.waiting = null;
        ready.forEach((data) => this.postMessage(data));
      });
      this.inner.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }
  };
