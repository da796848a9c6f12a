// An OpenID provider for tests. The first line on standard input says what it is, each later one who is known from then on. It
// answers each with a line, of which the first is its port, and ends with its input.
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

import { Provider } from 'oidc-provider';

const lines = createInterface({ input: process.stdin });
lines.on('close', () => process.exit(0));
const input = lines[Symbol.asyncIterator]();
const { issuer, clients, secrets, redirects, lifetime, interval, users: first } = JSON.parse((await input.next()).value);
let users = first;

const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
const device = 'urn:ietf:params:oauth:grant-type:device_code';
const seconds = (n) => () => n;
const own = [...new Set(users.flatMap((user) => Object.keys(user.claims ?? {})))];

const provider = new Provider(issuer, {
  clients: clients.map((id) => ({
    client_id: id,
    application_type: 'native',
    ...(secrets[id] ? { client_secret: secrets[id] } : { token_endpoint_auth_method: 'none' }),
    grant_types: ['authorization_code', 'refresh_token', device],
    response_types: ['code'],
    redirect_uris: redirects,
  })),
  jwks: { keys: [{ ...key, kid: randomUUID(), use: 'sig', alg: 'RS256' }] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  scopes: ['openid', 'offline_access', 'groups'],
  claims: {
    openid: ['sub', 'groups', ...own],
    groups: ['groups'],
    profile: ['preferred_username', 'name'],
    email: ['email', 'email_verified'],
  },
  conformIdTokenClaims: false, // so that ID tokens say it, and not the userinfo endpoint alone
  features: { devInteractions: { enabled: false }, deviceFlow: { enabled: true } },
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  ttl: {
    IdToken: seconds(lifetime),
    AccessToken: seconds(300),
    AuthorizationCode: seconds(60),
    DeviceCode: seconds(300),
    Grant: seconds(18000),
    Interaction: seconds(300),
    RefreshToken: seconds(18000),
    Session: seconds(18000),
  },
  findAccount(_, subject) {
    const user = users.find((u) => u.subject === subject);
    return user && { accountId: subject, claims: () => claims(user) };
  },
});

function claims(user) {
  return {
    ...user.claims,
    sub: user.subject,
    preferred_username: user.name,
    name: user.fullName || user.name,
    email: user.email,
    email_verified: !user.emailUnverified,
    ...(user.groups ? { groups: user.groups } : {}),
  };
}

function show(res, form, alert) {
  res.setHeader('Content-Type', 'text/html; charset=utf-8');
  res.end(`<!DOCTYPE html>
<title>Sign in</title>
${alert ? `<p role="alert">${alert}</p>` : ''}
<form method="post">${form}<button type="submit">Continue</button></form>
`);
}

const signIn = '<input name="login" autocomplete="username"><input name="password" type="password">';

// interact shows a person what the provider wants to know: who it is, and what the client may have.
async function interact(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (prompt.name === 'consent') {
    if (req.method !== 'POST') {
      return show(res, '<p>The client asks for what belongs to you.</p>');
    }
    const grant = grantId
      ? await provider.Grant.find(grantId)
      : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    grant.addOIDCClaims(prompt.details.missingOIDCClaims ?? []);
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
  }
  if (req.method !== 'POST') {
    return show(res, signIn);
  }
  const posted = new URLSearchParams(await text(req));
  const user = users.find((u) => u.name === posted.get('login') && u.password === posted.get('password'));
  if (!user) {
    return show(res, signIn, 'user or password is wrong');
  }
  return provider.interactionFinished(req, res, { login: { accountId: user.subject } });
}

provider.proxy = true; // a proxy before it counts, and is what clients know
provider.use(async (ctx, next) => {
  await next();
  if (ctx.oidc?.route === 'device_authorization' && ctx.status === 200) {
    ctx.body = { ...ctx.body, interval };
  }
});

const answer = provider.callback();
const server = createServer((req, res) => {
  if (!req.url.startsWith('/interaction/')) {
    answer(req, res);
    return;
  }
  interact(req, res).catch((err) => {
    res.statusCode = 400;
    res.end(String(err));
  });
});
server.listen(0, '127.0.0.1', async () => {
  console.log(server.address().port);
  for await (const line of input) {
    users = JSON.parse(line);
    console.log('known');
  }
});
