"""Dense NumPy references: each formula written out as in docs/maths.md, slowly and plainly."""

import numpy as np
import scipy.linalg as sla


def log_normal(y, mean, cov):
    """Sum over columns of log N(y_p | mean_p, cov)."""
    y = (y - mean).reshape(len(cov), -1)
    sign, logdet = np.linalg.slogdet(cov)
    assert sign > 0
    n, p = y.shape
    return -0.5 * (p * (n * np.log(2 * np.pi) + logdet) + np.sum(y * np.linalg.solve(cov, y)))


class Dense:
    """All matrices of a sparse regression problem, N×N ones included."""

    def __init__(self, kernel, X, y, Z, noise, jitter=1e-6, mean=0.0, known=0.0):
        self.K = np.asarray(kernel(X))
        Kuu = np.asarray(kernel(Z))
        self.Kuu = Kuu + jitter * np.mean(np.diag(Kuu)) * np.eye(len(Z))
        self.Kuf = np.asarray(kernel(Z, X))
        self.Q = self.Kuf.T @ np.linalg.solve(self.Kuu, self.Kuf)
        self.D = self.K - self.Q
        self.noise = noise + known * np.ones(len(X))
        self.y, self.mean = np.asarray(y), mean
        self.p = self.y.reshape(len(X), -1).shape[1]
        root = 1 / np.sqrt(self.noise)
        self.R = self.D * np.outer(root, root)
        self.r = np.diag(self.R)

    @property
    def n(self):
        return len(self.K)

    def gaussian(self, extra=0.0):
        return log_normal(self.y, self.mean, self.Q + np.diag(self.noise) + extra)

    def evidence(self):
        return log_normal(self.y, self.mean, self.K + np.diag(self.noise))

    def blocks(self, size):
        keep = np.zeros((self.n, self.n))
        for i in range(0, self.n, size):
            keep[i : i + size, i : i + size] = 1
        return keep

    def penalty(self, name, size=1):
        if name == "standard":
            return self.r.sum()
        if name == "spherical":
            return self.n * np.log1p(self.r.mean())
        if name == "diagonal":
            return np.log1p(self.r).sum()
        return np.linalg.slogdet(np.eye(self.n) + self.R * self.blocks(size))[1]

    def bound(self, name, size=1):
        """(2.1)"""
        return self.gaussian() - 0.5 * self.p * self.penalty(name, size)

    def power_ep(self, alpha, size=1):
        """(2.2), as in the literature: log determinant of its own noise and correction apart."""
        inflated = alpha * self.D * self.blocks(size)
        correction = np.linalg.slogdet(np.eye(self.n) + alpha * self.R * self.blocks(size))[1]
        return self.gaussian(inflated) - self.p * (1 - alpha) / (2 * alpha) * correction

    def upper(self):
        """(9.1), for one noise variance."""
        y = (self.y - self.mean).reshape(self.n, -1)
        s2 = self.noise[0]
        logdet = np.linalg.slogdet(self.Q + s2 * np.eye(self.n))[1]
        inflated = self.Q + (np.trace(self.D) + s2) * np.eye(self.n)
        quadratic = np.sum(y * np.linalg.solve(inflated, y))
        return -0.5 * (self.p * (self.n * np.log(2 * np.pi) + logdet) + quadratic)

    def V(self, name, size=1):
        """(1.4)"""
        if name == "standard":
            return np.eye(self.n)
        if name == "spherical":
            return np.eye(self.n) / (1 + self.r.mean())
        if name == "diagonal":
            return np.diag(1 / (1 + self.r))
        return np.linalg.inv(np.eye(self.n) + self.R * self.blocks(size))

    def uncollapsed_integrand(self, V):
        """log of ∫ exp(E_q(f|u) log p(y|f) − KL) p(u) du for any V, from (1.2) and (1.3)."""
        kl = 0.5 * (np.trace(V) - np.linalg.slogdet(V)[1] - self.n)
        return self.gaussian() - self.p * (0.5 * np.trace(V @ self.R) + kl)

    def predict(self, kernel, Xs, X, Z, noise_extra=0.0):
        """(8.1): mean and joint covariance; ``noise_extra`` is Power EP's αD."""
        Ksu, Kss = np.asarray(kernel(Xs, Z)), np.asarray(kernel(Xs))
        C = np.diag(self.noise) + noise_extra
        Lam = self.Kuu + self.Kuf @ np.linalg.solve(C, self.Kuf.T)
        y = (self.y - self.mean).reshape(self.n, -1)
        mean = Ksu @ np.linalg.solve(Lam, self.Kuf @ np.linalg.solve(C, y))
        cov = Kss - Ksu @ np.linalg.solve(self.Kuu, Ksu.T) + Ksu @ np.linalg.solve(Lam, Ksu.T)
        return mean, cov

    def optimal(self, noise_extra=0.0):
        """Mean (m, p) and covariance of the optimal q(u), (2.3); ``noise_extra`` is Power EP's αD."""
        C = np.diag(self.noise) + noise_extra
        Lam = self.Kuu + self.Kuf @ np.linalg.solve(C, self.Kuf.T)
        y = (self.y - self.mean).reshape(self.n, -1)
        mean = self.Kuu @ np.linalg.solve(Lam, self.Kuf @ np.linalg.solve(C, y))
        return mean, self.Kuu @ np.linalg.solve(Lam, self.Kuu)

    def local(self, kernel, Xs, X, Z, rows, q, output=0):
        """(8.4): mean and joint covariance of one output at ``Xs``, all given the targets of ``rows``.

        p(f*, y_b | u) is conditioned on y_b, of which missing ones are left out, and integrated over q(u) = N(*q).
        """
        return self._given(self._at(kernel, Xs, X, Z), rows, q, output)

    def locals(self, kernel, Xs, X, Z, rows, q, output=0):
        """The same for each of ``Xs`` by itself, given its own of ``rows`` (n, k): means and variances (n,)."""
        Kss, Ksu, Ksf = self._at(kernel, Xs, X, Z)
        each = [(Kss[i : i + 1, i : i + 1], Ksu[i : i + 1], Ksf[i : i + 1]) for i in range(len(Xs))]
        mean, cov = zip(*(self._given(one, b, q, output) for one, b in zip(each, rows, strict=True)), strict=True)
        return np.concatenate(mean), np.concatenate(cov)[:, 0]

    def _at(self, kernel, Xs, X, Z):
        return tuple(np.asarray(k) for k in (kernel(Xs), kernel(Xs, Z), kernel(Xs, X)))

    def _given(self, at, rows, q, output):
        Kss, Ksu, Ksf = at
        y = (self.y - self.mean).reshape(self.n, -1)[:, output]
        b = np.asarray([i for i in rows if not np.isnan(y[i])], int)
        from_u, from_u_b = (np.linalg.solve(self.Kuu, k).T for k in (Ksu.T, self.Kuf[:, b]))
        cross = Ksf[:, b] - from_u @ self.Kuf[:, b]
        h = np.linalg.solve(self.D[np.ix_(b, b)] + np.diag(self.noise[b]), cross.T).T
        rest = from_u - h @ from_u_b
        return rest @ q[0] + h @ y[b], Kss - from_u @ Ksu.T - h @ cross.T + rest @ q[1] @ rest.T

    def consistent(self, kernel, Xs, X, Z, V):
        """(8.2), by building the joint of f* and f under q(f|u) p(f*|f, u) q(u)."""
        mean, cov = self.predict(kernel, Xs, X, Z)
        root = 1 / np.sqrt(self.noise)
        Ksu = np.asarray(kernel(Xs, Z))
        cross = (np.asarray(kernel(Xs, X)) - Ksu @ np.linalg.solve(self.Kuu, self.Kuf)) * root
        R = 0.5 * (self.R + self.R.T)
        half = sla.sqrtm(R + 1e-12 * np.eye(self.n)).real
        left = np.linalg.solve(half, cross.T).T
        return mean, cov - left @ (np.eye(self.n) - V) @ left.T


class Uncollapsed:
    """Bounds with an explicit whitened q(w) = N(m, S), one latent function and Gaussian noise (4.1, 5.1, §6)."""

    def __init__(self, kernel, X, y, Z, noise, m, S, jitter=1e-6, known=0.0, orthogonal=None, m_o=None, S_o=None):
        Kuu, K = np.asarray(kernel(Z)), np.asarray(kernel(X))
        if orthogonal is not None:
            joint = np.asarray(kernel(np.concatenate([Z, orthogonal])))
            level = jitter * np.mean(np.diag(joint))
        else:
            level = jitter * np.mean(np.diag(Kuu))
        L = np.linalg.cholesky(Kuu + level * np.eye(len(Z)))
        A = sla.solve_triangular(L, np.asarray(kernel(Z, X)), lower=True)
        self.D = K - A.T @ A
        self.mean, self.var = A.T @ m, np.sum(A * (S @ A), axis=0)
        self.kl = self._kl(m, S)
        if orthogonal is not None:  # §6, as it stands: C is what u leaves of the kernel
            A_o = sla.solve_triangular(L, np.asarray(kernel(Z, orthogonal)), lower=True)
            C_oo = np.asarray(kernel(orthogonal)) + level * np.eye(len(orthogonal)) - A_o.T @ A_o
            C_of = np.asarray(kernel(orthogonal, X)) - A_o.T @ A
            c = sla.solve_triangular(np.linalg.cholesky(C_oo), C_of, lower=True)
            self.D = self.D - c.T @ c
            self.mean, self.var = self.mean + c.T @ m_o, self.var + np.sum(c * (S_o @ c), axis=0)
            self.kl += self._kl(m_o, S_o)
        self.y, self.noise = y, noise + known * np.ones(len(X))

    @staticmethod
    def _kl(m, S):
        return 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])

    def expected(self, var):
        return np.sum(-0.5 * np.log(2 * np.pi * self.noise) - ((self.y - self.mean) ** 2 + var) / (2 * self.noise))

    def tight(self, blocks=None):
        """(4.1): diagonal, or with a mask of blocks."""
        R = self.D / np.sqrt(np.outer(self.noise, self.noise))
        mask = np.eye(len(R)) if blocks is None else blocks
        return self.expected(self.var) - 0.5 * np.linalg.slogdet(np.eye(len(R)) + R * mask)[1] - self.kl

    def scaled(self, v=1.0):
        """(5.1); v = 1 is the standard bound."""
        n = len(self.y)
        return self.expected(self.var + v * np.diag(self.D)) - 0.5 * n * (v - np.log(v) - 1) - self.kl


class Averaged:
    """ψ-statistics by a fine Gauss–Hermite grid for each row, and the bounds made of them (7.1, 7.4, 7.5)."""

    def __init__(self, kernel, X, S, y, Z, noise, jitter=1e-6, known=0.0, nodes=40):
        self.kernel, self.Z = kernel, Z
        z, w = np.polynomial.hermite_e.hermegauss(nodes)
        d = X.shape[1]
        self.grid = np.stack(np.meshgrid(*[z] * d, indexing="ij"), axis=-1).reshape(-1, d)
        w = w / w.sum()
        self.weights = np.prod(np.stack(np.meshgrid(*[w] * d, indexing="ij"), axis=-1), axis=-1).reshape(-1)
        Kuu = np.asarray(kernel(Z))
        self.Kuu = Kuu + jitter * np.mean(np.diag(Kuu)) * np.eye(len(Z))
        self.psi0, self.psi1, self.psi2 = self.statistics(X, S)
        self.noise = noise + known * np.ones(len(X))
        self.y = np.asarray(y).reshape(len(X), -1)

    def statistics(self, X, S):
        """⟨k(x, x)⟩ (n,), ⟨k_u(x)⟩ (n, m) and ⟨k_u(x)k_u(x)ᵀ⟩ (n, m, m)."""
        parts = []
        for x, s in zip(X, S, strict=True):
            at = x + np.sqrt(s) * self.grid
            K, w = np.asarray(self.kernel(at, self.Z)), self.weights
            parts.append((w @ np.asarray(self.kernel.diagonal(at)), w @ K, (K * w[:, None]).T @ K))
        return (np.stack(a) for a in zip(*parts, strict=True))

    def residuals(self, psi0, psi2):
        return psi0 - np.einsum("ij,nji->n", np.linalg.inv(self.Kuu), psi2)

    def bound(self, name):
        """(7.4), output by output; every row over its own noise variance."""
        r = self.residuals(self.psi0, self.psi2) / self.noise
        penalty = {
            "standard": r.sum(),
            "spherical": len(r) * np.log1p(r.mean()),
            "diagonal": np.log1p(r).sum(),
        }[name]
        inner = self.Kuu + np.einsum("n,nij->ij", 1 / self.noise, self.psi2)
        total = 0.0
        for y in self.y.T:
            b = self.psi1.T @ (y / self.noise)
            total += 0.5 * (np.linalg.slogdet(self.Kuu)[1] - np.linalg.slogdet(inner)[1])
            total += -0.5 * np.sum(np.log(2 * np.pi * self.noise) + y * y / self.noise)
            total += 0.5 * b @ np.linalg.solve(inner, b) - 0.5 * penalty
        return total

    def predict(self, X, S, m, cov):
        """(7.5): mean and variance at uncertain inputs, for q(u) = N(m, cov)."""
        psi0, psi1, psi2 = self.statistics(X, S)
        mean = psi1 @ np.linalg.solve(self.Kuu, m)
        inverse = np.linalg.inv(self.Kuu)
        square = np.einsum("ij,nji->n", inverse @ (cov + np.outer(m, m)) @ inverse, psi2)
        return mean, self.residuals(psi0, psi2) + square - mean**2
