// An application that logs people in by openid-client, a certified relying party. It reads a line of what it is, says where it sends a
// browser, reads where the browser came back to, and says what it was told.
import { createInterface } from 'node:readline';
import * as client from 'openid-client';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => JSON.parse((await lines.next()).value);
const say = (what) => console.log(JSON.stringify(what));

const { issuer, id, secret, post, redirect, home } = await next();
const how = post ? client.ClientSecretPost(secret) : client.ClientSecretBasic(secret);
const config = await client.discovery(new URL(issuer), id, undefined, how, { execute: [client.allowInsecureRequests] });
const verifier = client.randomPKCECodeVerifier();
const state = client.randomState();
const nonce = client.randomNonce();
say(client.buildAuthorizationUrl(config, {
  redirect_uri: redirect, scope: 'openid profile email groups', state, nonce,
  code_challenge: await client.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
}).href);

const back = new URL(await next());
const checks = { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true };
const tokens = await client.authorizationCodeGrant(config, back, checks);
const claims = tokens.claims();
const info = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
const again = await client.authorizationCodeGrant(config, back, checks).then(() => 'taken', (err) => err.error);
const leave = client.buildEndSessionUrl(config, { id_token_hint: tokens.id_token, post_logout_redirect_uri: home }).href;
say({ claims, info, again, leave });
