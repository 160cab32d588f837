// Tiles computed beside the page, so that it never waits: by workers or, where there can be none, in small slices.

import {fromHalves} from "./blocks.js";
import {
  addWeights, dotProducts, exponentialTables, maskAdds, openHead, seenColumns, tileJob,
} from "./weights.js";

const smallWork = 2 ** 21;  // multiply–adds, done at once: some milliseconds
const sliceTime = 5;  // milliseconds of a slice

/** Computes tiles of heads given as `specs`: {parallel, tile({heads, rows, columns, bins}), close}, heads by index. */
export function weightsPool(specs) {
  const opened = new Map();
  const head = number => {
    if (!opened.has(number)) opened.set(number, openHead(specs[number]));
    return opened.get(number);
  };
  const workers = startWorkers(specs), idle = [...workers], jobs = new Map(), waiting = [];
  const here = ([request, resolve, reject]) =>
    inSlices(tileJob(request.heads.map(head), request)).then(resolve, reject);

  function start(worker, job) {
    jobs.set(worker, job);
    worker.postMessage(job[0]);
  }

  for (const worker of workers) {
    worker.onmessage = ({data}) => {
      const [, resolve, reject] = jobs.get(worker), next = waiting.shift();
      jobs.delete(worker);
      if (next) start(worker, next);
      else idle.push(worker);
      if (data.error) reject(new Error(data.error));
      else resolve(data.values);
    };
    worker.onerror = event => {  // it may not start here, as in some notebooks
      event.preventDefault();
      for (const list of [workers, idle]) if (list.includes(worker)) list.splice(list.indexOf(worker), 1);
      if (jobs.has(worker)) here(jobs.get(worker));
      jobs.delete(worker);
      if (!workers.length) waiting.splice(0).forEach(here);
    };
  }

  return {
    get parallel() {
      return Math.max(workers.length, 1);
    },
    tile(request) {
      const [rows, columns] = [request.rows, request.columns].map(([from, to]) => to - from);
      const work = rows * columns * request.heads.length * specs[request.heads[0]].width;
      return new Promise((resolve, reject) => {
        const job = [request, resolve, reject];
        if (work <= smallWork || !workers.length) here(job);
        else if (idle.length) start(idle.pop(), job);
        else waiting.push(job);
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
