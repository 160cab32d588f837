// Tiles computed beside the page, so that it never waits: by workers or, where there can be none, in small slices.

import {fromHalves} from "./blocks.js";
import {
  addWeights, dotProducts, exponentialTables, maskAdds, openHead, seenColumns, tileJob,
} from "./weights.js";

const smallWork = 2 ** 21;  // multiply–adds, done at once: some milliseconds
const sliceTime = 5;  // milliseconds of a slice

/** Computes tiles of heads given as `specs`: {parallel, tile({heads, rows, columns, bins}), close}; heads by index. */
export function weightsPool(specs) {
  const opened = new Map();
  const head = number => {
    if (!opened.has(number)) opened.set(number, openHead(specs[number]));
    return opened.get(number);
  };
  const workers = startWorkers(specs), idle = [...workers], waiting = [];
  const here = request => inSlices(tileJob(request.heads.map(head), request));

  function ask(worker, request, resolve, reject) {
    worker.onmessage = ({data}) => {
      const next = waiting.shift();
      if (next) ask(worker, ...next);
      else idle.push(worker);
      if (data.error) reject(new Error(data.error));
      else resolve(data.values);
    };
    worker.onerror = () => {  // it was not allowed to start
      workers.splice(workers.indexOf(worker), 1);
      here(request).then(resolve, reject);
      for (const [other, ...settle] of workers.length ? [] : waiting.splice(0)) here(other).then(...settle);
    };
    worker.postMessage(request);
  }

  return {
    get parallel() {
      return Math.max(workers.length, 1);
    },
    async tile(request) {
      const [rows, columns] = [request.rows, request.columns].map(([start, stop]) => stop - start);
      const work = rows * columns * request.heads.length * specs[request.heads[0]].width;
      if (work <= smallWork || !workers.length) return here(request);
      return new Promise((resolve, reject) => {
        if (idle.length) ask(idle.pop(), request, resolve, reject);
        else waiting.push([request, resolve, reject]);
      });
    },
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}

async function inSlices(job) {
  for (let end = performance.now() + sliceTime; !job.step();) {
    if (performance.now() < end) continue;
    await new Promise(resume => setTimeout(resume, 0));
    end = performance.now() + sliceTime;
  }
  return job.values;
}

function startWorkers(specs) {
  const functions = [
    fromHalves, openHead, maskAdds, seenColumns, dotProducts, exponentialTables, addWeights, tileJob, workerMain,
  ];
  const source = functions.map(String).join("\n") + "\nworkerMain();";
  const count = Math.min(Math.max((navigator.hardwareConcurrency ?? 2) - 1, 1), 4), workers = [];
  try {
    const address = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
    for (let n = 0; n < count; n++) {
      const worker = new Worker(address);
      worker.onerror = event => event.preventDefault();
      worker.postMessage({specs});
      workers.push(worker);
    }
  } catch {
    // A notebook may forbid workers.
  }
  return workers;
}

/** What runs in a worker: first it gets the heads, then one request at a time. */
function workerMain() {
  let specs = [];
  const opened = new Map();
  self.onmessage = ({data}) => {
    if (data.specs) {
      specs = data.specs;
      return;
    }
    try {
      const heads = data.heads.map(number => {
        if (!opened.has(number)) opened.set(number, openHead(specs[number]));
        return opened.get(number);
      });
      const job = tileJob(heads, data);
      while (!job.step());
      self.postMessage({values: job.values}, [job.values.buffer]);
    } catch (error) {
      self.postMessage({error: String(error)});
    }
  };
}
