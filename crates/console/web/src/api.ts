// Requests to the server: the console's own API, and the storage services under /data.
//
// Every request but a download carries the token of the session. An error of a storage service keeps its code.

export class ServerError extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

export interface SessionInfo {
  signedIn: boolean;
  accounts: string[];
  hasOthers: boolean;
  csrf: string;
  version: string;
}

let csrf = '';
/** Whether the page is going away. */
let leaving = false;
export const setLeaving = (is: boolean) => { leaving = is; };

/** The current session; makes one if there is none. */
export async function fetchSession(): Promise<SessionInfo> {
  return keep(await send('GET', '/api/session'));
}

export async function signIn(shown: { account?: string; key?: string; token?: string }): Promise<SessionInfo> {
  return keep(await send('POST', '/api/session', { body: JSON.stringify(shown) }));
}

export async function signOut(): Promise<void> {
  await send('DELETE', '/api/session');
}

async function keep(response: Response): Promise<SessionInfo> {
  const session = (await response.json()) as SessionInfo;
  csrf = session.csrf;
  return session;
}

export interface SendOptions {
  headers?: Record<string, string>;
  body?: BodyInit | null;
  signal?: AbortSignal;
}

/** Sends a request and gives its answer, or throws a `ServerError`. */
export async function send(method: string, path: string, options: SendOptions = {}): Promise<Response> {
  const headers = { ...options.headers, 'x-tavola-csrf': csrf };
  const response = await fetch(path, { method, headers, body: options.body ?? null, signal: options.signal ?? null, keepalive: leaving });
  if (response.ok) return response;
  throw await errorOf(response);
}

/** The answer of an API path, as JSON. */
export async function get<T>(path: string, query: Record<string, string> = {}, signal?: AbortSignal): Promise<T> {
  const text = new URLSearchParams(query).toString();
  const response = await send('GET', text ? `${path}?${text}` : path, { signal });
  return (await response.json()) as T;
}

async function errorOf(response: Response): Promise<ServerError> {
  const text = await response.text();
  const header = response.headers.get('x-ms-error-code') ?? '';
  try {
    const body = JSON.parse(text);
    const error = body['odata.error'] ?? body.error ?? {};
    const message = typeof error.message === 'object' ? error.message?.value : error.message;
    return new ServerError(response.status, error.code ?? header, firstLine(message ?? response.statusText));
  } catch {
    const body = new DOMParser().parseFromString(text, 'application/xml');
    const of = (tag: string) => body.querySelector(tag)?.textContent ?? '';
    const message = of('Message') || of('message') || response.statusText || 'the request failed';
    return new ServerError(response.status, of('Code') || of('code') || header, firstLine(message));
  }
}

/** Errors of the services carry request id and time in further lines. */
const firstLine = (text: string) => text.split('\n')[0] ?? text;

const VERSION = '2021-12-02';
const part = encodeURIComponent;

/** A request to a storage service. `path` is encoded already. */
export function storage(
  service: 'table' | 'queue' | 'blob',
  account: string,
  method: string,
  path: string,
  options: SendOptions = {},
): Promise<Response> {
  const headers: Record<string, string> = { 'x-ms-version': VERSION, ...options.headers };
  if (service === 'table') {
    headers['accept'] ??= 'application/json;odata=minimalmetadata';
    headers['dataserviceversion'] = '3.0';
    headers['maxdataserviceversion'] = '3.0;NetFx';
    if (options.body != null) headers['content-type'] ??= 'application/json';
  }
  return send(method, `/data/${service}/${part(account)}/${path}`, { ...options, headers });
}

export const xml = async (response: Response) =>
  new DOMParser().parseFromString(await response.text(), 'application/xml');
export const encode = part;
