// The one WebSocket: messages in, commands out, and a new one after a pause when it is lost.
import { type Message, parseMessage } from "./protocol/messages.ts";
import { Malformed, type Reader } from "./protocol/read.ts";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
/** A server that is there sends a sample each second. */
const SILENCE_MS = 15_000;
const ANSWER_MS = 30_000;
/** Of stored runs, which the server reads and analyses first: millions of turns take minutes. */
const LONG_ANSWER_MS = 1_800_000;
const LONG = new Set<unknown>(["run", "level", "compare"]);

/** How long to wait for the answer to a command. */
export function answerMs(command: unknown): number {
  return LONG.has(command) ? LONG_ANSWER_MS : ANSWER_MS;
}

export interface Listener {
  onOpen(): void;
  onMessage(message: Message): void;
  onLost(retryAtMs: number, attempts: number, reason: string): void;
}

/** Why there is no answer: nobody said no, and another connection may bring it. */
export class NotConnected extends Error {}

interface Question {
  resolve(result: unknown): void;
  reject(error: Error): void;
  timer: number;
}

/** 0.5 s, 1 s, 2 s, ... 10 s. */
export function pauseMs(attempts: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempts, 10));
}

function reasonOf(code: number): string {
  switch (code) {
    case 1001:
      return "the server has ended";
    case 1008:
      return "this page asked too much at once";
    case 1013:
      return "the server has too many viewers";
    default:
      return "the server does not answer";
  }
}

export class Connection {
  #socket: WebSocket | undefined;
  #attempts = 0;
  #nextId = 1;
  #silence = 0;
  readonly #questions = new Map<number, Question>();

  constructor(
    private readonly url: string,
    private readonly token: string | null,
    private readonly listener: Listener,
  ) {}

  open(): void {
    const socket = new WebSocket(this.url, "kvist-dashboard-1");
    this.#socket = socket;
    socket.addEventListener("open", () => this.listener.onOpen());
    socket.addEventListener("message", (event: MessageEvent<unknown>) => this.#receive(event.data));
    socket.addEventListener("close", (event) => this.#lost(socket, reasonOf(event.code)));
    this.#listen();
  }

  /** Now instead of at the end of the pause. */
  retry(): void {
    if (this.#socket) return;
    this.open();
  }

  /** Asks and reads the answer. Rejects with the server's words, or when the connection is lost. */
  async ask<T>(command: string, keys: Record<string, unknown>, reader: Reader<T>): Promise<T> {
    return reader(await this.#send({ command, ...keys }), command);
  }

  /** A command that changes something. */
  async change(command: string, keys: Record<string, unknown> = {}): Promise<void> {
    await this.#send({ command, ...keys, ...(this.token === null ? {} : { token: this.token }) });
  }

  async subscribe(topic: string): Promise<void> {
    await this.#send({ command: "subscribe", topic });
  }

  async unsubscribe(topic: string): Promise<void> {
    await this.#send({ command: "unsubscribe", topic });
  }

  #send(message: Record<string, unknown>): Promise<unknown> {
    const socket = this.#socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) return Promise.reject(new NotConnected("not connected"));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => this.#settle(id)?.reject(new Error("no answer came")), answerMs(message["command"]));
      this.#questions.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify({ ...message, id }));
    });
  }

  #settle(id: number): Question | undefined {
    const question = this.#questions.get(id);
    if (!question) return undefined;
    window.clearTimeout(question.timer);
    this.#questions.delete(id);
    return question;
  }

  #receive(data: unknown): void {
    this.#listen();
    if (typeof data !== "string") return;
    let message: Message | null;
    try {
      message = parseMessage(data);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      console.warn(`a message of the server was not understood: ${error.message}`);
      return;
    }
    if (message === null) return;
    if (message.type === "hello") this.#attempts = 0;
    if (message.type === "reply") {
      const question = this.#settle(message.id);
      if (message.ok) question?.resolve(message.result);
      else question?.reject(new Error(message.error ?? "the server refused"));
      return;
    }
    this.listener.onMessage(message);
  }

  /** Starts to wait for the next message anew. */
  #listen(): void {
    window.clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#silence = window.setTimeout(() => {
      if (!socket || socket !== this.#socket) return;
      this.#lost(socket, "nothing came for 15 s");
      socket.close();
    }, SILENCE_MS);
  }

  #lost(socket: WebSocket, reason: string): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    window.clearTimeout(this.#silence);
    for (const id of [...this.#questions.keys()]) this.#settle(id)?.reject(new NotConnected("the connection was lost"));
    const pause = pauseMs(this.#attempts++);
    this.listener.onLost(Date.now() + pause, this.#attempts, reason);
    window.setTimeout(() => this.retry(), pause);
  }
}
