"""Checked certificates of machines and of flows, and changes of them."""

import dataclasses
from typing import Any, TypeVar

import pytest

from graphexec import Graph, Limits, errors, verify
from graphexec.verify.checker.check import check_certificate
from graphexec.verify.proof.findings import Witness
from graphexec.verify.proof.flow import Flow
from graphexec.verify.proof.prove import prove_flow

T = TypeVar("T")

DEFAULT = Limits()


def require(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value


def certificate_of(machine: Graph[Any, Any], limits: Limits = DEFAULT) -> verify.Certificate:
    """Return the certificate of a machine that is proved to end; it is checked, after it is read again."""
    verdict = verify.verify(machine, limits)
    assert verdict.certificate is not None, verdict
    again = verify.Certificate.from_json(verdict.certificate.to_json())
    assert again == verdict.certificate
    verify.check(again, machine)
    return verdict.certificate


def bounds_of(machine: Graph[Any, Any], limits: Limits = DEFAULT) -> verify.Bounds:
    return certificate_of(machine, limits).bounds


def meters_of(machine: Graph[Any, Any], limits: Limits = DEFAULT) -> dict[str, str]:
    """Return the bounds on meters as text."""
    return {name: str(bound) for name, bound in bounds_of(machine, limits).meters.items()}


def prove(flow: Flow, limits: Limits = DEFAULT) -> verify.Certificate:
    """Return the checked certificate of a flow."""
    certificate = require(prove_flow(flow, limits)[0])
    check_certificate(certificate)
    return certificate


def witness_of(finding: verify.Finding) -> Witness:
    return require(finding.witness)


def with_bound(certificate: verify.Certificate, name: str, **changes: Any) -> verify.Certificate:
    """Return the certificate with parts of one bound exchanged."""
    bounds = certificate.bounds
    if name in ("transitions", "seconds"):
        new = {name: dataclasses.replace(getattr(bounds, name), **changes)}
    else:
        new = {"meters": {**bounds.meters, name: dataclasses.replace(bounds.meters[name], **changes)}}
    return dataclasses.replace(certificate, bounds=dataclasses.replace(bounds, **new))


def refuse(certificate: verify.Certificate, fault: str, machine: Graph[Any, Any] | None = None) -> None:
    """Assert that the certificate is refused for a fault, as that of a machine or by itself."""
    with pytest.raises(errors.CertificateError, match=fault):
        check_certificate(certificate) if machine is None else verify.check(certificate, machine)
