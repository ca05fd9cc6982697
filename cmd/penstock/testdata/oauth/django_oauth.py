"""A server of Django OAuth Toolkit for the tests: django_oauth.py FOLDER ISSUER PORT.

GRACE is for how many seconds a used refresh token stays valid, LIFE the lifetime of an access token in seconds.
"""
import os
import sys

import django
from django.conf import settings

folder, issuer, port = sys.argv[1:4]
settings.configure(
    DEBUG=True,
    SECRET_KEY="only for tests",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    LOGIN_URL="/accounts/login/",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder + "/db.sqlite3", "OPTIONS": {"timeout": 20}}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request"]}}],
    OAUTH2_PROVIDER={
        "SCOPES": {"crm.read": "read contacts", "helpdesk.read": "read tickets", "introspection": "look at tokens"},
        "ACCESS_TOKEN_EXPIRE_SECONDS": int(os.environ.get("LIFE", "3600")),
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": int(os.environ.get("GRACE", "0")),
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "OIDC_ISS_ENDPOINT": issuer,
        "OAUTH_DEVICE_VERIFICATION_URI": issuer + "/device/",
        "DEVICE_FLOW_INTERVAL": 1,
    },
)
django.setup()

from django.contrib.auth import get_user_model, login  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.http import HttpResponseRedirect  # noqa: E402
from django.urls import include, path  # noqa: E402


def sign_in(request):
    """Signs in the only user."""
    login(request, get_user_model().objects.get(username="demo"), backend="django.contrib.auth.backends.ModelBackend")
    return HttpResponseRedirect(request.GET.get("next", "/"))


urlpatterns = [path("accounts/login/", sign_in), path("", include("oauth2_provider.urls", namespace="oauth2_provider"))]


def main():
    from oauth2_provider.models import Application

    call_command("migrate", verbosity=0)
    user, _ = get_user_model().objects.get_or_create(username="demo")
    for name, kind in [("public", "public"), ("basic", "confidential"), ("post", "confidential")]:
        Application.objects.update_or_create(client_id=name, defaults={
            "user": user, "client_type": kind, "authorization_grant_type": "authorization-code", "hash_client_secret": False,
            "client_secret": "" if kind == "public" else "oauth-client-secret",
            "redirect_uris": "http://127.0.0.1/callback http://localhost:8123/oauth/back",
        })
    Application.objects.update_or_create(client_id="device", defaults={
        "user": user, "client_type": "public", "authorization_grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_secret": "",
    })
    call_command("runserver", "127.0.0.1:" + port, use_reloader=False, verbosity=0)


if __name__ == "__main__":
    sys.modules["django_oauth"] = sys.modules["__main__"]
    main()
