"""One specification per protocol: everything that a simulation, a study, a plan or an audit must know about it.

* `base`: what a specification is (`Spec`), and the specification of one encrypted sum (`SumSpec`).
* `tally`: votes counted under encryption (Hamm 2016); the curator adds the noise.
* `statistic`: linear statistics of votes or of own rows, with noise that the parties add.
* `average`: averages of parameters (Hamm 2016, appendix B.4) and of directions; the curator adds the noise.
* `record`: a private Newton step over all rows, private for each record.
* `evaluation`: accuracy and calibration of a public classifier on the parties' rows.
* `psgd`: private stochastic gradient descent (Rajkumar and Agarwal 2012).
* `pathak`: averages of parameters in additive shares (Pathak et al. 2010).
* `secrets`: what must not leak from a protocol, as each specification declares it.
* `study`: the specification of a signed study.
"""
