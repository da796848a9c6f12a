// Server-sent events, as text/event-stream writes them.

/** One event of a stream, as text/event-stream has them. */
export function parsed(block: string): { event: string; data: string; id: string } {
  const fields: Record<string, string> = {};
  for (const text of block.split("\n")) {
    const at = text.indexOf(":");
    if (at <= 0) continue;
    const name = text.slice(0, at);
    const value = text.slice(at + 1).replace(/^ /, "");
    fields[name] = name === "data" && fields.data !== undefined ? fields.data + "\n" + value : value;
  }
  return { event: fields.event ?? "message", data: fields.data ?? "", id: fields.id ?? "" };
}
