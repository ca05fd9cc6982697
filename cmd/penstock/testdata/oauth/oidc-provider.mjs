// A server of node-oidc-provider for the tests: node oidc-provider.mjs MODULES ISSUER PORT.
// With ROTATE=no, a used refresh token stays valid. LIFE is the lifetime of an access token in seconds.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [, , modules, issuer, port] = process.argv;
const require = createRequire(modules + '/x.js');
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href);

const grants = ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'];
const client = (id, method, more) => ({
  client_id: id, application_type: 'native', response_types: ['code'], grant_types: grants,
  redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/oauth/back'],
  token_endpoint_auth_method: method, ...(method === 'none' ? {} : { client_secret: 'oauth-client-secret' }), ...more,
});

const provider = new Provider(issuer, {
  clients: [
    client('public', 'none'),
    client('basic', 'client_secret_basic'),
    client('post', 'client_secret_post'),
    client('norefresh', 'none', { grant_types: ['authorization_code'] }),
  ],
  scopes: ['openid', 'offline_access', 'crm.read', 'helpdesk.read'],
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true, allowedPolicy: () => true },
    introspection: { enabled: true, allowedPolicy: () => true },
  },
  pkce: { required: () => true },
  rotateRefreshToken: () => process.env.ROTATE !== 'no',
  cookies: { keys: ['only for tests'] },
  ttl: {
    AccessToken: Number(process.env.LIFE || 3600), AuthorizationCode: 60, DeviceCode: 600,
    RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600,
  },
});
provider.proxy = true;
provider.listen(Number(port), '127.0.0.1');
