// The theme's search runs in a Worker, which browsers refuse to a page that was opened as a file. There, this class
// takes the place of Worker: it runs the same script in a hidden frame. The theme looks for the name IFrameWorker.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    this.inside = this.frame.contentWindow;
    this.inside.document.open(); // so that no browser puts another empty page in its place later
    this.inside.document.write("<!doctype html><body></body>");
    this.inside.document.close();
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve());
    this.ready = this.load(url);
  }

  load(url) {
    return new Promise((resolve, reject) => {
      const script = this.inside.document.createElement("script");
      Object.assign(script, { src: url, onload: resolve, onerror: reject });
      this.inside.document.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") Object.assign(window, { IFrameWorker, Worker: IFrameWorker });
