// What each number means, in plain words, with the theorems it rests on.
export const GLOSSARY = {
  accuracy_upper: {
    label: "Attack success",
    text: "Somebody is told to say “in” or “out” about one record. Whatever they do, they are right at most this often. Blind guessing is right as often as the likelier answer.",
    theorems: ["I24-P2", "X2"],
  },
  advantage_upper: {
    label: "Advantage (TPR − FPR)",
    text: "Share of members identified minus share of false alarms among non-members, for the best attack. 0 is blind guessing, 1 is certainty.",
    theorems: ["I24-P2", "X2"],
  },
  tpr_upper: {
    label: "Members identified",
    text: "An attacker with at most the stated share of false alarms among non-members (FPR) identifies at most this share of the members (TPR).",
    theorems: ["I24-T4"],
  },
  guess_upper: {
    label: "Another guess about a record",
    text: "Whatever is guessed about a record (an attribute, the record itself, which of many people it is): a guess that is right this often without the release is right at most this often with it. It holds against somebody who knows all other records, where the record does not depend on them.",
    theorems: ["X23"],
  },
  precision_upper: {
    label: "Identifications that are right",
    text: "An attacker may name as few people as they like, only the surest. At most this share of the names is right. With δ > 0 it is always 100 %.",
    theorems: ["I24-T4"],
  },
  eta_upper: {
    label: "η (membership inference privacy)",
    text: "When a random half of a known population was used, nobody is right more than ½ + η of the time about any record. Read for a record replaced by another one.",
    theorems: ["I24-P2", "I24-T4"],
  },
  mu_upper: {
    label: "μ (Gaussian differential privacy)",
    text: "For experts: the whole curve summed up by one number. Moved by the regret in both error rates, neither curve is more private than the other; a large regret says that one number is too coarse.",
    theorems: ["L24-L10"],
  },
  security_lower: {
    label: "Security MIS",
    text: "1 means that attacks are no better than blind guessing, 0 that membership can be read off. About the average record.",
    theorems: ["A25-P5", "A25-T6"],
  },
  security_lower_iid: {
    label: "MIS, sharper",
    text: "The same security by a sharper result that holds when δ = 0 and the records are independent draws.",
    theorems: ["X11"],
  },
  epsilon: {
    label: "ε at δ",
    text: "The differential-privacy parameter: how much one record can change the probability of any outcome, as a factor of e^ε. Smaller is safer.",
    theorems: ["I24-T4"],
  },
  noise_multiplier: {
    label: "Noise multiplier σ",
    text: "DP-SGD: standard deviation of the noise divided by the clipping norm. Larger is safer.",
    theorems: ["L24-L10", "X12"],
  },
};
