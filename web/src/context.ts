// What every view is given.
import type { Connection } from "./connection.ts";
import type { Store } from "./store.ts";

export interface Context {
  readonly store: Store;
  readonly connection: Connection;
  /** Says something for a moment where everybody sees it: that a command was refused, for instance. */
  tell(text: string): void;
  /** Asks for the view to be shown again, with the next picture. */
  refresh(): void;
  /** The length of time that plots show, seconds. */
  windowS: number;
}

export interface View {
  readonly element: HTMLElement;
  /** The address behind the view's name has changed: "#/conversations/REST". */
  enter?(rest: string): void;
  leave?(): void;
  /** The store has changed. */
  show(): void;
}

/** Sends a change, and tells if the server refuses it. */
export function change(context: Context, command: string, keys: Record<string, unknown> = {}): Promise<boolean> {
  return context.connection.change(command, keys).then(
    () => true,
    (error: Error) => {
      context.tell(error.message);
      return false;
    },
  );
}
