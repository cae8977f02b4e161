// Asking the library: one request in flight for each asker, the newest wish next, all between them dropped.
export class Newest {
  constructor(answered, refused) {
    this.answered = answered;
    this.refused = refused;
    this.busy = false;
    this.wish = null;
    this.leaving = new AbortController();
    addEventListener("pagehide", () => this.leaving.abort());
  }

  ask(address) {
    this.wish = address;
    if (!this.busy) this.next();
  }

  async next() {
    this.busy = true;
    while (this.wish !== null) {
      const address = this.wish;
      this.wish = null;
      try {
        const answer = await getJson(address, this.leaving.signal);
        this.answered(answer, address);
      } catch (error) {
        if (error.name !== "AbortError") this.refused(error, address);
      }
    }
    this.busy = false;
  }
}

export async function getJson(address, signal) {
  let reply;
  try {
    reply = await fetch(address, { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The lab does not answer. Is its terminal still running?");
  }
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.error);
  return content;
}
